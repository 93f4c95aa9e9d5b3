/* Clears and drives: of a clear that was answered no page comes back, whichever drives are there at
 * the next starts. docs/dev/protocol.md and docs/dev/disk-tier.md have the rules in words,
 * node/clear/clearing.cc and disk/superblocks.cc are the code; check.sh runs this exhaustively,
 * whole and without each guard.
 *
 * A node with two drives, each with a page of before the clear and two superblocks. It may crash at
 * any time, STARTS times in all, and find either drive or both when it starts again. A drive may go
 * off at any time, and a bit of one superblock may flip. Another member may hear of the clear: it
 * keeps it, and tells the node at its starts.
 *
 * The guards' names are found again in the code as "model drives: NAME". */

#define record_first 1 /* a clear is answered when the drives that are on have recorded it */
#define none_missed 2  /* and none is off, or another member knows */
#define both_copies 3  /* a drive has recorded it when both its superblocks say so */

#define ON(guard) (WITHOUT != guard)
#ifndef WITHOUT /* check.sh gives it */
#define WITHOUT 0
#endif
#define STARTS 3

bool up = 1, knows = 0, other_knows = 0, answered = 0;
byte starts = 0;
bool on[2], flipped = 0;
bool says[4], damaged[4]; /* AT(d, c): superblock c of drive d has the clear, and cannot be read */

#define AT(d, c) ((d) * 2 + (c))
#define READ(d, c) (says[AT(d, c)] && !damaged[AT(d, c)])
#define TELLS(d) (on[d] && (READ(d, 0) || READ(d, 1)))
#define RECORDED(d) (!on[d] || (says[AT(d, 0)] && (says[AT(d, 1)] || !ON(both_copies))))

init {
  byte d, c;
  d_step { on[0] = 1; on[1] = 1 }
  do
  :: atomic { /* any superblock */
       select(d : 0 .. 1);
       select(c : 0 .. 1);
       if
       /* crashes and starts */
       :: up && starts < STARTS -> up = 0; starts++
       :: !up -> on[d] = !on[d]
       :: !up && (on[0] || on[1]) -> up = 1; knows = TELLS(0) || TELLS(1) || other_knows
       :: up && on[d] -> on[d] = 0
       :: !flipped -> flipped = 1; damaged[AT(d, c)] = 1
       /* the clear: in force, heard of by another member, recorded, answered */
       :: up -> knows = 1
       :: up && knows -> other_knows = 1
       :: up && knows && on[d] && (c == 0 || says[AT(d, 0)]) ->
         says[AT(d, c)] = 1;
         damaged[AT(d, c)] = 0
       :: up && knows && (!ON(record_first) || (RECORDED(0) && RECORDED(1))) &&
          (!ON(none_missed) || (on[0] && on[1]) || other_knows) -> answered = 1
       /* a read */
       :: up && answered -> assert(knows)
       :: else
       fi;
       d = 0;
       c = 0
     }
  od
}
