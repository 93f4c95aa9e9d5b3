/* Clears: after a clear has ended nobody is given a page that was set before it. docs/dev/protocol.md
 * tells the rules in words, node/clear/clears.h is the code; check.sh runs this exhaustively, whole and
 * without each guard.
 *
 * MEMBERS nodes, of which 0 carries an engine's clear to the others and the last has the page. Any
 * node may be stopped at any time, STOPS times in all, for a moment or for long, which is as long as
 * a clear waits for a member. Its memory is read all the same (RDMA), and records of its page are
 * everywhere. Nodes keep what they fetch (replicas). Steps are atomic, messages arrive or do not;
 * that a sweep is one step is what Apply and Sweep do by sweeping until nothing is left.
 *
 * The guards' names are found again in the code as "model clears: NAME". */

#define vouched_only 1 /* a reader reads only from members that know as much as it does */
#define fresh_word 2   /* who hears of a clear forgets what members have said of themselves before */
#define name_unheard 3 /* who is told that all others know is told who does not */
#define drop_first 4   /* who hears of a clear drops first, and says then that it knows */
#define end_flights 5  /* what was fetched before that is not kept after it */
#define wait_long 6    /* a clear goes without a member only after the time that the member notices */
#define notice_stop 7  /* a member that was stopped for as long asks others before it gives pages */
#define ask_current 8  /* not those that have to ask themselves */
#define wait_last 9    /* and the time begins when all others know */

#define ON(guard) (WITHOUT != guard)
#ifndef WITHOUT /* check.sh gives it */
#define WITHOUT 0
#endif
#define MEMBERS 3
#define STOPS 3

bool has[MEMBERS], knows[MEMBERS], pending[MEMBERS];
byte fetched[MEMBERS];     /* a page on its way to be kept: 0 none, 1 to be kept, 2 void */
bool stopped[MEMBERS], long_away[MEMBERS], behind[MEMBERS];
bool word[MEMBERS * MEMBERS]; /* WORD(i, j): j has said to i that it knows as much */
bool told[MEMBERS], unheard[MEMBERS];
byte stage = 0; /* of the clear: 1 telling, 2 waiting for who was silent, 3 it has ended */
byte stops = 0;

#define WORD(i, j) word[(i) * MEMBERS + (j)]
#define READS(i, j) (has[j] && (!ON(vouched_only) || !knows[i] || WORD(i, j)))
#define SERVES(i) (!stopped[i] && !behind[i])
#define OTHER(i) (((i) + 1) % MEMBERS)
#define THIRD(i) (((i) + 2) % MEMBERS)
#define TOLD(i) (told[i] || unheard[i])
/* Who could have answered while the clear waited for the last has answered. */
#define GIVEN_UP(i) (unheard[i] && (stopped[i] || !ON(wait_last)))

inline drop(d) {
  has[d] = 0;
  fetched[d] = (fetched[d] != 0 && ON(end_flights) -> 2 : fetched[d])
}
/* h hears of the clear from another, which knows it. */
inline hear(h, by) {
  if
  :: ON(drop_first) -> drop(h)
  :: else -> pending[h] = 1
  fi;
  knows[h] = 1;
  if
  :: ON(fresh_word) -> WORD(h, OTHER(h)) = 0; WORD(h, THIRD(h)) = 0
  :: else
  fi;
  WORD(h, by) = 1
}
/* x and y tell each other all. */
inline exchange(x, y) {
  if
  :: knows[y] && !knows[x] -> hear(x, y)
  :: knows[x] && !knows[y] -> hear(y, x)
  :: else
  fi;
  WORD(x, y) = 1;
  WORD(y, x) = 1
}
/* The clearer tells v that all know but the unheard. */
inline vouch(v) {
  WORD(v, OTHER(v)) = WORD(v, OTHER(v)) || !unheard[OTHER(v)] || !ON(name_unheard);
  WORD(v, THIRD(v)) = WORD(v, THIRD(v)) || !unheard[THIRD(v)] || !ON(name_unheard)
}

init {
  byte i, j;
  d_step {
    has[MEMBERS - 1] = 1;
    for (i : 0 .. MEMBERS * MEMBERS - 1) { word[i] = 1 }
  }
  do
  :: atomic { /* any two members */
       select(i : 0 .. MEMBERS - 1);
       select(j : 0 .. MEMBERS - 1);
       if
       /* stops */
       :: !stopped[i] && stops < STOPS -> stops++; stopped[i] = 1; long_away[i] = 0
       :: stopped[i] && !long_away[i] -> long_away[i] = 1
       :: stopped[i] -> stopped[i] = 0; behind[i] = behind[i] || (long_away[i] && ON(notice_stop))
       /* contacts, and what a member does that has to ask */
       :: i != j && !stopped[i] && !stopped[j] && knows[i] == knows[j] -> WORD(i, j) = 1
       :: i != j && !stopped[i] && !stopped[j] && knows[i] != knows[j] -> exchange(i, j)
       :: i != j && behind[i] && !stopped[i] && !stopped[j] && (!behind[j] || !ON(ask_current)) ->
         exchange(i, j); behind[i] = 0
       :: pending[i] && !stopped[i] -> pending[i] = 0; drop(i)
       /* reads */
       :: i != j && SERVES(i) && fetched[i] == 0 && !has[i] && READS(i, j) -> fetched[i] = 1
       :: fetched[i] == 1 && !stopped[i] -> fetched[i] = 0; has[i] = 1
       :: fetched[i] == 2 && !stopped[i] -> fetched[i] = 0
       :: stage == 3 && SERVES(i) -> assert(!has[i] && (i == j || !READS(i, j)))
       /* the clear, while its member runs */
       :: stage == 0 && !stopped[0] -> stage = 1
       :: stage > 0 && stage < 3 && !stopped[0] && !stopped[i] && !told[i] ->
         if
         :: !knows[i] -> hear(i, i)
         :: else
         fi;
         told[i] = 1;
         unheard[i] = 0
       :: stage == 1 && !stopped[0] && i > 0 && stopped[i] && !TOLD(i) &&
          (long_away[i] || !ON(wait_long)) -> unheard[i] = 1
       :: stage == 1 && !stopped[0] && told[0] && TOLD(1) && TOLD(2) -> stage = 2
       :: stage == 2 && !stopped[0] && !stopped[i] && told[i] -> vouch(i)
       :: stage == 2 && !stopped[0] && (told[1] || GIVEN_UP(1)) && (told[2] || GIVEN_UP(2)) ->
         long_away[1] = long_away[1] || (stopped[1] && ON(wait_long));
         long_away[2] = long_away[2] || (stopped[2] && ON(wait_long));
         stage = 3
       :: else
       fi;
       i = 0;
       j = 0
     }
  od
}
