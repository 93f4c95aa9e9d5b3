/* Reclaim: no reader is ever given the bytes of another page. A model of how a slot of the pool
 * comes to be written again. docs/dev/protocol.md tells the protocol in words, directory/fence.h why it
 * is right; check.sh runs this exhaustively, whole and without each guard.
 *
 * One page of one owner lies in one slot. Its record may be in HOSTS shards, of which any may be
 * wanted or not at any time, which covers every change of the ring. The page is evicted, its record
 * withdrawn, its slot rests and is written with another page. An owner starts LIVES times, each time
 * with a page in the same slot under the same generation. The process of a shard starts SHARD_LIVES
 * times and loses all; a former one lives on and is still reached by some (a ghost). With FILE the
 * owner's memory outlives its process: the next one has the page if it was in service, or an empty
 * slot. The first process has the longer lease.
 *
 * Further pages, slots and owners only add what is here already: their messages are contacts to the
 * record of this one. The network carries at most MSGS messages of the owner at once that can still
 * do anything. Each may be heard late, after younger ones, more than once, by either process of its
 * shard, or never; its answer may be late or lost. So a shard may reach its readers and not the
 * owner, or hear the owner and not be heard.
 *
 * Time is in ticks. What lasts d ticks by one clock may last d + DRIFT by another; waits are
 * therefore longer by PAD. With STOPS clocks stand still for as long as they like, and their
 * processes take steps all the same. A reader may use what it was told, which is also what a
 * location cache does, at any time of the lease.
 *
 * Comments "step NAME" and the guards' names are found again in the code as "model: NAME". */

/* The guards: rules of the protocol. spin -DWITHOUT=wait_lease breaks that one. The simulation
 * (directory/reclaim_simulation.h) has the same ones under the same names. */
/* reader */
#define lease_from_ask 1         /* a lease is counted from before the lookup was sent */
#define check_lease 2            /* memory is not read after the lease */
#define same_life 3              /* a record of another start of the owner's process is not used */
#define owners_times 4           /* reader and shard go by the owner's lease and ttl, if shorter */
#define read_in_time 5           /* a read by request counts if complete within a lease */
#define time_last 29             /* the time is looked at after the last byte has come */
#define check_grant 25           /* one-sided lookups: no entry counts after what the shard has granted */
#define grant_from_ask 26        /* a grant is counted from before it was asked for */
#define same_era 27              /* an entry counts only under the grant's (incarnation, epoch) */
/* holder, of reads by request */
#define check_slot 6             /* only the page that was asked for is sent */
#define pin_till_acked 32        /* it is pinned until its bytes have arrived, or never can */
/* memory, of READs */
#define header_last 33           /* the slot's header is looked at after the last byte has come */
#define void_first 34            /* and is void before any byte of the slot is written again */
/* owner */
#define wait_lease 7             /* a withdrawn slot rests for a lease */
#define wait_silence 8           /* and for a shard that did not answer until it must be silent */
#define pad_waits 9              /* waits are longer than what they wait for, by the drift of clocks */
#define raise_epoch 10           /* after a message that was not answered */
#define raise_on_restart 11      /* after an answer of another process of the shard */
#define count_from_hearing 12    /* silence is counted from when the newest echo was heard */
#define former_life 13           /* silence also covers what a former process of the owner has heard */
#define settle_publish 14        /* a page is not withdrawn while a publish of it is under way */
#define note_first 15            /* a shard is noted before the record is sent there */
#define keep_note_in_flight 16   /* a note is not removed while a publish is under way */
#define keep_note_till_silent 17 /* nor before the shard is silent about former epochs */
#define gone_gives_up 18         /* nor, when the shard is gone, before its epoch was ended */
#define served_elsewhere 35      /* what a shard has served whose note was removed counts as well */
#define served_directly 36       /* so does what the holder has sent itself */
/* owner, whose memory outlives its process */
#define rest_adopted 40          /* what it takes over rests for a lease before it is written */
#define rest_longest 41          /* for the longest that processes before have given */
#define rest_kept 42             /* which is forgotten after such a rest, not before */
/* shard */
#define check_fresh 19           /* only records of fresh owners are served */
#define own_echo 20              /* an owner is fresh by its echo, not by its message's arrival */
#define own_stamps 21            /* echoes of another process's stamps are void */
#define drop_copies 22           /* a message counts once */
#define refuse_lower 23          /* a message of a lower (incarnation, epoch) is refused */
#define void_lower 24            /* a higher one voids what was said under a lower one */
#define rewrite_first 28         /* what is withdrawn is out of the bucket before the answer */
#define new_name 30              /* to a lower incarnation that it hears the shard is a new process */
#define served_stamp 37          /* it says when it has served what is withdrawn, answers on their way too */
#define served_unknown 38        /* what it does not have it may have served just now */
#define served_by_grant 39       /* so may readers that it has granted to look into its memory */
/* everybody */
#define raw_clock 31             /* durations are measured by a clock that nobody slews */

#define ON(guard) (WITHOUT != guard)
#ifndef WITHOUT /* check.sh gives all of these */
#define WITHOUT 0
#define HOSTS 1
#define SHARD_LIVES 1 /* up to 2 */
#define LIVES 1
#define MSGS 2
#define EPOCHS 3    /* nothing is begun in the last one */
#define ONE_SIDED 1 /* the reader reads memory (RDMA); 0: it asks the holder to send (TCP);
                     * 2: it reads the shards' buckets, too */
#define SPLIT 0     /* 1: reads take time */
#define LOCAL 0     /* 1: the reader that asks is on the holder's machine, and its clock with it:
                     * its kernel has the bytes at once, by reference */
#define BACK 0      /* 1: a later process of the owner has a lower incarnation */
#define FILE 0      /* 1: the owner's memory outlives its process; for reads by request */
#define STOPS 0     /* whose clocks may stand still while others' go on; a sum of these: */
#define HEADERS 0   /* 1: READs that take time count by their slots' headers. While the clocks of
                     * readers and shards run, all holds without */
#endif
#define READERS 1
#define SHARDS 2
#define OWNERS 4
#define ALL (READERS + SHARDS + OWNERS)
#define LEASE_OF(l) (1 + (FILE && (l) == 1)) /* of the owner's process */
#define LEASE LEASE_OF(life)
#define TTL 1
#define DRIFT (ON(raw_clock) -> 1 : 2)
#define PAD (ON(pad_waits) -> 1 : 0)
/* For how long a slot rests after the last moment at which somebody may have got its record. */
#define REST (ON(wait_lease) -> LEASE + PAD : 0)
/* As long as others may go by the owner's d ticks. */
#define THEIR(d) (DRIFT + (ON(owners_times) -> d : d + 1))
#define INSTANCES (HOSTS * SHARD_LIVES)

/* ---- state ----------------------------------------------------------------------------------- */
#define CONTACT 1
#define PUBLISH 2
#define WITHDRAW 3
#define REMOVE 4 /* repair withdraws, the page stays */
mtype:state = { READY, WITHDRAWING, RESTING, REUSED, REWRITTEN }

typedef Message { /* and, once it was heard, its answer */
  unsigned kind : 3;    /* 0: a free place */
  unsigned host : 1; unsigned life : 2; unsigned epoch : 3;
  unsigned echo : 3;    /* ticks for which it makes the owner fresh; 0: void */
  unsigned echo_of : 1; /* whose stamp that is */
  unsigned heard : 2;   /* by which processes, as the sequence number says */
  bit waits;            /* the owner waits for the answer */
  unsigned answer : 2;  /* on its way; 0: none, 1: refused, 2: accepted */
  unsigned stamp : 3; unsigned stamp_of : 1;
  unsigned rest : 2     /* of a withdrawal: ticks that are left of REST since the record was served */
}
#define AT_START (ON(former_life) -> TTL + PAD + REST : 0)
#define AT_FIRST (ON(former_life) -> TTL + PAD + (ON(wait_lease) -> LEASE_OF(1) + PAD : 0) : 0)
typedef Fence { /* what the owner knows of a shard: directory/fence.h */
  unsigned epoch : 3 = 1;
  bit begun;            /* a message of this epoch */
  unsigned known : 2;   /* the shard's process, from 1; 0: not heard yet */
  unsigned echo : 3; unsigned echo_of : 1;
  unsigned proof : 3;   /* REST after no echo heard so far makes the owner fresh; ticks */
  unsigned silent : 3 = AT_FIRST /* REST after the shard is silent about former epochs */
}
typedef Instance { /* one process of a shard: directory/owner_table.h */
  unsigned life : 2; unsigned epoch : 3; /* the pair it knows of the owner; 0: none */
  bit dropped;          /* that pair is refused */
  unsigned fresh : 3;   /* ticks */
  bit record; unsigned served : 2 /* ticks that are left of REST since it was served */
#if ONE_SIDED > 1
  /* The record's entry in its bucket (directory/buckets.h), which nobody sweeps: that would only
   * keep readers from it. */
  bit entry; unsigned e_life : 2; unsigned e_epoch : 3;
  /* What the reader was granted by this process; ticks. Life 0: nothing. */
  unsigned g_life : 2; unsigned g_epoch : 3; unsigned granted : 3;
  unsigned lent : 3 /* REST after the last grant has ended */
#endif
}

Message msg[MSGS];
Fence fence[HOSTS];
Instance inst[INSTANCES];
bit restarted;           /* the shards' processes that answer now are the second ones */
unsigned life : 2 = 1;
byte slot = READY;       /* mtype:state */
bit noted[HOSTS];        /* PublishedTo */
unsigned reuse : 3;      /* ticks until the slot may be written */
unsigned rest : 2;       /* by the withdrawals that are over */
unsigned told : 2;       /* ticks that are left of REST since others than noted shards told of it */
byte publishing;         /* 1 + the host that is noted for a publish, page pinned; 0: none */
bit in_flight;           /* that publish was sent */
bit repairing;           /* a REMOVE is under way, page pinned */
bit reading;             /* the reader has a record */
bit sending;             /* and the holder, asked for it, sends the page */
unsigned r_life : 2; unsigned lease : 3;
#if FILE
unsigned kept : 2 = LEASE_OF(1); /* the longest lease that the file remembers */
unsigned resting : 3;            /* ticks until the memory may be written */
#define RESTED (resting == 0)
#else
#define RESTED 1
#endif
#if SPLIT
bit took, wrong;         /* it has the bytes, and they are of another page */
bit saw;                 /* it has looked at what must be looked at last */
unsigned looking : 2;    /* 1 + the process whose bucket is being read */
unsigned k_life : 2; unsigned k_epoch : 3; /* by this grant */
#endif

byte m, h, i, x; bit yes, crowded; /* scratch, 0 between steps */
#if ONE_SIDED > 1
#define UNLENT inst[i].lent = (inst[i].g_life != 0 -> inst[i].lent : 0)
#else
#define UNLENT skip
#endif
#if SPLIT
#define LOOKING (looking != 0)
#else
#define LOOKING 0
#endif
#define BUSY (reading || SPLIT && LOOKING)
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#if BACK
#define NUMBER(l) (((l) != 0) * (LIVES + 1 - (l)))
#else
#define NUMBER(l) (l)
#endif
#define PAIR(of) (NUMBER(of.life) * 8 + of.epoch) /* also in C */

/* Takes messages away that nobody waits for and that can make no difference: every process would
 * refuse them, or they could at most void or withdraw, which costs a reader a hit at most. Then
 * puts the rest in order, so that histories which differ in places alone are one. */
inline Tidy() {
  /* While nobody holds a record, what waits for readers alone is over. That lets slots be reused
   * earlier than they are, so it hides nothing. */
  if
  :: !BUSY ->
     rest = 0; told = 0;
     for (m : 0 .. MSGS - 1) { msg[m].rest = 0 }
     for (h : 0 .. HOSTS - 1) {
       fence[h].proof = (fence[h].proof > REST -> fence[h].proof : 0);
       fence[h].silent = (fence[h].silent > REST -> fence[h].silent : 0)
     }
     for (i : 0 .. INSTANCES - 1) { inst[i].served = 0; UNLENT }
  :: else
  fi;
  c_code {
    int a, b, gone;
    for (a = 0; a < MSGS; a++) {
      struct Message *p = &now.msg[a];
      gone = SHARD_LIVES == 1 || now.restarted;
      for (b = p->host; b < INSTANCES; b += HOSTS) {
        if (PAIR((*p)) < PAIR(now.inst[b])) {
          gone = gone && ON(refuse_lower) && ON(new_name);
          p->heard &= ~(1 << b);
        } else {
          gone = gone && PAIR((*p)) == PAIR(now.inst[b]) &&
                 (now.inst[b].dropped || ((p->heard >> b) & 1 && ON(drop_copies)));
        }
      }
      if (!p->waits && (gone || (p->kind != PUBLISH && p->echo == 0))) memset(p, 0, sizeof(*p));
      for (b = a; b > 0 && memcmp(&now.msg[b - 1], &now.msg[b], sizeof(*p)) < 0; b--) {
        struct Message c = now.msg[b];
        now.msg[b] = now.msg[b - 1];
        now.msg[b - 1] = c;
      }
    }
  };
  m = 0; h = 0; i = 0; x = 0; yes = 0; crowded = 0
}

/* ---- the owner ------------------------------------------------------------------------------- */
#define FREE(m) (msg[(m) % MSGS].kind == 0)
#define MAY_SEND(f) ((FREE(0) || FREE(1) || FREE(2)) && fence[f].epoch < EPOCHS)

inline Raise(f) {
  fence[f].silent = MAX(fence[f].silent, fence[f].proof);
  fence[f].proof = 0;
  fence[f].epoch++; fence[f].begun = 0
}

inline GiveUp(f) { if :: fence[f].begun -> Raise(f) :: else fi } /* step GiveUp */

inline Begin(what, f) { /* step Begin */
  m = 0;
  do
  :: msg[m].kind != 0 -> m++
  :: else -> break
  od;
  msg[m].kind = what; msg[m].host = f; msg[m].life = life; msg[m].epoch = fence[f].epoch;
  msg[m].echo = fence[f].echo; msg[m].echo_of = fence[f].echo_of;
  msg[m].waits = 1; fence[f].begun = 1
}

inline Hear(f) { /* adopts the stamp of m's answer */
  fence[f].echo = msg[m].stamp;
  fence[f].echo_of = (msg[m].stamp > 0 -> msg[m].stamp_of : 0);
  fence[f].proof = (ON(count_from_hearing) -> TTL + PAD + REST : fence[f].proof)
}

#define COUNTS(f) (fence[f].epoch == msg[m].epoch)
inline Failed(f) { if :: ON(raise_epoch) && COUNTS(f) -> Raise(f) :: else fi } /* step Failed */

inline Answered(f) { /* step Answered */
  yes = (fence[f].known == msg[m].stamp_of + 1); /* the same process as last time */
  if
  :: !COUNTS(f) ->
     if :: yes && msg[m].stamp > fence[f].echo -> Hear(f) :: else fi
  :: else ->
     if :: ON(raise_on_restart) && fence[f].known != 0 && !yes -> Raise(f) :: else fi;
     if :: !yes || msg[m].stamp > fence[f].echo -> Hear(f) :: else fi;
     fence[f].known = msg[m].stamp_of + 1
  fi
}

#define NO_ANSWER \
  msg[m].waits = 0; msg[m].answer = 0; msg[m].stamp = 0; msg[m].stamp_of = 0; msg[m].rest = 0
#define SILENT(f) (fence[f].silent <= REST)

/* The owner is done with message m; answered: the answer that is there arrives. */
inline End(answered) {
  h = msg[m].host;
  if
  :: !(answered) && msg[m].kind != CONTACT -> Failed(h)
  :: !(answered) && msg[m].kind == CONTACT /* put nothing there */
  :: (answered) && msg[m].answer == 1 -> Failed(h); Answered(h); yes = 0
  :: (answered) && msg[m].answer == 2 -> Answered(h); yes = COUNTS(h)
  fi;
  if
  :: msg[m].kind == PUBLISH ->
     publishing = 0; in_flight = 0;
     noted[h] = noted[h] || (!ON(note_first) && yes && slot == READY)
  :: msg[m].kind == REMOVE ->
     repairing = 0;
     yes = yes && (SILENT(h) || !ON(keep_note_till_silent)); /* nothing is there */
     told = (ON(served_elsewhere) && slot == READY -> REST : told);
     noted[h] = (ON(keep_note_in_flight) -> noted[h] || !yes : noted[h] && !yes)
  :: msg[m].kind == WITHDRAW -> x = (yes -> msg[m].rest : REST); rest = MAX(rest, x)
  :: else
  fi;
  NO_ANSWER;
  Tidy()
}

#if SPLIT
#define END_OF_READ \
     reading = 0; sending = 0; r_life = 0; lease = 0; \
     took = 0; wrong = 0; saw = 0; looking = 0; k_life = 0; k_epoch = 0
#else
#define END_OF_READ reading = 0; sending = 0; r_life = 0; lease = 0
#endif

#if FILE
inline Adopt() { /* step Adopt: a page that is not in service any more is gone, its slot is free */
  slot = (slot == WITHDRAWING -> RESTING : slot);
  x = (ON(rest_longest) -> MAX(kept, LEASE) : LEASE);
  resting = (ON(rest_adopted) -> x + PAD : 0);
  kept = (ON(rest_kept) -> x : LEASE)
}
#define AGE_REST \
  AGE(resting); \
  kept = (resting == 0 -> LEASE : kept)
#else
#define Adopt() slot = READY
#define AGE_REST skip
#endif

inline StartOwner() { /* step StartOwner */
  life++;
  Adopt();
  reuse = 0; rest = 0; told = 0; publishing = 0; in_flight = 0; repairing = 0;
  /* Its connection is gone. What a kernel has by reference stays where it is. */
  if :: sending && !(FILE && LOCAL) -> END_OF_READ :: else fi;
  for (m : 0 .. MSGS - 1) { NO_ANSWER }
  for (h : 0 .. HOSTS - 1) {
    noted[h] = 0;
    fence[h].epoch = 1; fence[h].begun = 0; fence[h].known = 0;
    fence[h].echo = 0; fence[h].echo_of = 0; fence[h].proof = 0;
    fence[h].silent = AT_START
  }
  Tidy()
}

/* ---- the shard ------------------------------------------------------------------------------- */
#if ONE_SIDED > 1
#define SAME_ERA (inst[i].e_life == inst[i].life && inst[i].e_epoch == inst[i].epoch)
#define REWRITE \
     if \
     :: msg[m].kind == PUBLISH && inst[i].record -> \
        inst[i].entry = 1; inst[i].e_life = inst[i].life; inst[i].e_epoch = inst[i].epoch \
     :: (msg[m].kind == WITHDRAW || msg[m].kind == REMOVE) && SAME_ERA && ON(rewrite_first) -> \
        inst[i].entry = 0; inst[i].e_life = 0; inst[i].e_epoch = 0 \
     :: else \
     fi
#define LENT x = (ON(served_by_grant) -> MAX(x, MIN(REST, inst[i].lent)) : x)
#else
#define REWRITE skip
#define LENT skip
#endif

#define GOES_BACK(m) (NUMBER(msg[m].life) < NUMBER(inst[i].life) && !ON(new_name))
inline Admit() { /* step Admit: process i hears message m */
  yes = 1;
  if
  :: PAIR(msg[m]) < PAIR(inst[i]) && !GOES_BACK(m) -> yes = !ON(refuse_lower)
  :: PAIR(msg[m]) == PAIR(inst[i]) -> yes = !inst[i].dropped
  :: else ->
     inst[i].record = inst[i].record && !ON(void_lower);
     inst[i].served = inst[i].record * inst[i].served;
     if
     :: GOES_BACK(m) -> inst[i].record = 0; inst[i].served = 0; inst[i].fresh = 0
     :: else
     fi;
#if BACK
     for (x : 0 .. MSGS - 1) { msg[x].heard = msg[x].heard & ~(1 << i) } /* none of this pair */
#endif
     inst[i].life = msg[m].life; inst[i].epoch = msg[m].epoch;
     inst[i].dropped = 0
  fi;
  yes = yes && !(ON(drop_copies) && (msg[m].heard >> i) & 1);
  if
  :: yes ->
     msg[m].heard = msg[m].heard | (1 << i);
     if
     :: !ON(own_echo) -> inst[i].fresh = THEIR(TTL)
     :: ON(own_echo) && msg[m].echo > inst[i].fresh && (msg[m].echo_of == i / HOSTS || !ON(own_stamps)) ->
        inst[i].fresh = msg[m].echo
     :: else
     fi;
     x = (inst[i].record || !ON(served_unknown) -> inst[i].served : REST);
     LENT;
     inst[i].served = (msg[m].kind == CONTACT || msg[m].kind == PUBLISH -> inst[i].served : 0);
     inst[i].record = (msg[m].kind == CONTACT -> inst[i].record :
                       msg[m].kind == PUBLISH && (inst[i].record || !crowded));
     REWRITE
  :: else
  fi
}

#define HEARD_BY(instance) m = _pid; i = msg[m].host + HOSTS * instance; Admit()
#define ANSWER \
  msg[m].answer = 1 + yes; msg[m].stamp = THEIR(TTL); msg[m].stamp_of = i / HOSTS; \
  msg[m].rest = (yes && msg[m].kind == WITHDRAW -> x : 0)

/* ---- processes; one of the steps below happens at a time ------------------------------------- */
active [MSGS] proctype Packet() { /* one message, wherever it is */
  do
  :: d_step { msg[_pid].kind != 0 -> HEARD_BY(0); Tidy() }
  :: d_step { msg[_pid].waits -> HEARD_BY(0); ANSWER; Tidy() }
  :: d_step { msg[_pid].waits && msg[_pid].kind == PUBLISH ->
       crowded = 1; HEARD_BY(0); ANSWER; Tidy() } /* step CrowdOut: there is no room for it */
#if SHARD_LIVES > 1
  :: d_step { restarted && msg[_pid].kind != 0 -> HEARD_BY(1); Tidy() }
  :: d_step { restarted && msg[_pid].waits -> HEARD_BY(1); ANSWER; Tidy() }
#endif
  :: d_step { msg[_pid].answer != 0 -> m = _pid; End(1) }
  :: d_step { msg[_pid].waits -> m = _pid; End(0) } /* step TimeOut */
  od
}

#define TO (_pid - MSGS)
#define OTHERS_MAY_PUBLISH (publishing != 0 && ON(keep_note_in_flight))
#define NOTE_IS_FREE (slot == READY && !repairing && noted[TO] && !OTHERS_MAY_PUBLISH)

active [HOSTS] proctype Toward() { /* what the owner does about one shard */
  do
  :: d_step { slot == READY && publishing == 0 -> /* step Publish: a set, or repair */
       publishing = 1 + TO; noted[TO] = noted[TO] || ON(note_first) }
  :: d_step { slot == READY && publishing == 1 + TO && !in_flight && MAY_SEND(TO) ->
       x = TO; Begin(PUBLISH, x); in_flight = 1; Tidy() }
  :: d_step { publishing == 1 + TO && !in_flight -> publishing = 0 } /* its breaker is open */
  :: d_step { MAY_SEND(TO) -> x = TO; Begin(CONTACT, x); Tidy() } /* step Contact */
  :: d_step { fence[TO].begun -> x = TO; Raise(x); Tidy() } /* step Leave: it is gone from the view */
  :: d_step { NOTE_IS_FREE && MAY_SEND(TO) -> /* step Remove: repair, it is not wanted any more */
       x = TO; repairing = 1; noted[x] = !ON(keep_note_in_flight); Begin(REMOVE, x); Tidy() }
  :: d_step { NOTE_IS_FREE -> /* step ForgetGone: repair, it is gone */
       x = TO;
       if :: ON(gone_gives_up) -> GiveUp(x) :: else fi;
       noted[x] = fence[x].silent > 0 && ON(keep_note_till_silent); /* nor held */
       Tidy() }
  od
}

#define PINNED_BY_READ (sending && ON(pin_till_acked) && !LOCAL)
#define MAY_WITHDRAW \
  (slot == READY && !repairing && (publishing == 0 || !ON(settle_publish)) && !PINNED_BY_READ)

/* From every shard that was noted. Those not worth asking (their breaker is open) are given up. */
inline WithdrawFrom(asked) {
  slot = WITHDRAWING;
  for (x : 0 .. HOSTS - 1) {
    if
    :: noted[x] && MAY_SEND(x) && (asked >> x) & 1 -> Begin(WITHDRAW, x)
    :: noted[x] && !(MAY_SEND(x) && (asked >> x) & 1) -> GiveUp(x); rest = REST
    :: else
    fi
  }
  Tidy()
}

#define ASKING(m) (msg[(m) % MSGS].kind == WITHDRAW && msg[(m) % MSGS].waits)

active proctype Owner() {
  do
  :: d_step { MAY_WITHDRAW -> WithdrawFrom(3) } /* step Withdraw */
  :: d_step { MAY_WITHDRAW -> WithdrawFrom(0) }
#if HOSTS > 1
  :: d_step { MAY_WITHDRAW -> WithdrawFrom(1) }
#endif
  :: d_step { /* step Quarantine: every withdrawal was answered or timed out */
       slot == WITHDRAWING && !ASKING(0) && !ASKING(1) && !ASKING(2) ->
       x = MAX(rest, told); rest = 0; told = 0;
       for (h : 0 .. HOSTS - 1) {
         x = (noted[h] && ON(wait_silence) -> MAX(x, fence[h].silent) : x);
         noted[h] = 0
       }
       slot = RESTING;
       reuse = x;
       assert(reuse <= TTL + PAD + LEASE + PAD); /* no slot rests for longer, so none is lost */
       Tidy() }
  :: d_step { slot == RESTING && reuse == 0 && RESTED -> slot = (HEADERS -> REUSED : REWRITTEN) } /* step Reuse */
  :: d_step { slot == REUSED -> slot = REWRITTEN }
#if LIVES > 1
  :: d_step { life < LIVES -> StartOwner() }
#endif
  od
}

active proctype Shard() { /* what shards do of their own accord */
  do
#if SHARD_LIVES > 1
  :: d_step { !restarted -> restarted = 1 } /* step RestartShard */
#endif
  :: d_step { inst[0].life != 0 -> inst[0].record = 0; inst[0].served = 0; inst[0].dropped = 1 } /* step Drop */
  :: d_step { inst[0].record && slot == WITHDRAWING ->
       inst[0].record = 0; inst[0].served = 0 } /* step Replace: by that of the key's next page */
  od
}

#define SERVED_BY(i) (inst[i].record && (inst[i].fresh > 0 || !ON(check_fresh)))
#define LOOK_UP(i) \
  reading = 1; r_life = inst[i].life; lease = (ONE_SIDED -> THEIR(LEASE_OF(r_life)) : 0); \
  inst[i].served = (ON(served_stamp) && ONE_SIDED -> REST : 0)
#define SAME_LIFE (r_life == life || !ON(same_life))
#define RIGHT_BYTES ((r_life == life || FILE) && slot != REWRITTEN && !(slot == REUSED && !ON(void_first)))
#define RIGHT_HEADER (r_life == life && slot != REWRITTEN && !(slot == REUSED && ON(void_first)))
/* What is looked at once the bytes are there, or else before. */
#define IN_TIME (lease > 0 || !ON(check_lease))
#define SEEN_EARLY (!ON(time_last) && IN_TIME || HEADERS && !ON(header_last) && RIGHT_HEADER)
#define SEEN_LAST \
  (!ON(time_last) || IN_TIME) && (!HEADERS || !ON(header_last) || RIGHT_HEADER) && \
  (saw || ON(time_last) && (!HEADERS || ON(header_last)))

/* Of the process i, which need not run any more to be looked into. */
#define MAY_GRANT(i) (inst[i].life != 0 && !inst[i].dropped && inst[i].fresh > 0)
#define HAS_GRANT(i) (inst[i].g_life != 0 && (inst[i].granted > 0 || !ON(check_grant)))
#define OF_GRANT(i) \
  (inst[i].e_life == inst[i].g_life && inst[i].e_epoch == inst[i].g_epoch || !ON(same_era))
#define GRANT(i) \
  inst[i].g_life = inst[i].life; inst[i].g_epoch = inst[i].epoch; inst[i].granted = inst[i].fresh; \
  inst[i].lent = inst[i].fresh + REST
#if SPLIT
#define LOOK(i) \
  looking = 1 + i; lease = THEIR(LEASE); k_life = inst[i].g_life; k_epoch = inst[i].g_epoch
#define OF_LOOK(i) (inst[i].e_life == k_life && inst[i].e_epoch == k_epoch || !ON(same_era))
#define LOOK_INTO reading = 1; looking = 0; r_life = k_life; k_life = 0; k_epoch = 0
#else
#define LOOK_INTO(i) reading = 1; r_life = inst[i].g_life; lease = THEIR(LEASE)
#endif

/* Its lookup is answered at once: had it been under way for longer, less of the lease would be left.
 * Nor is a request under way to the holder, or anything beyond the lease used, for the same reason. */
active proctype Reader() {
  do
  :: d_step { !BUSY && SERVED_BY(0) -> LOOK_UP(0) } /* step Lookup */
#if INSTANCES > 1
  :: d_step { !BUSY && SERVED_BY(1) -> LOOK_UP(1) }
#endif
#if ONE_SIDED > 1
  :: d_step { MAY_GRANT(0) -> GRANT(0) } /* step Served */
  :: d_step { inst[0].g_life != 0 && !ON(grant_from_ask) -> inst[0].granted = THEIR(TTL) } /* only now it arrives */
#if SPLIT
  :: d_step { !BUSY && HAS_GRANT(0) -> LOOK(0) }
  :: d_step { looking == 1 && inst[0].entry && OF_LOOK(0) -> LOOK_INTO }
  :: d_step { looking != 0 -> END_OF_READ; Tidy() }
#else
  :: d_step { !BUSY && inst[0].entry && HAS_GRANT(0) && OF_GRANT(0) -> LOOK_INTO(0) } /* step LookUpIn */
#endif
#if INSTANCES > 1
  :: d_step { MAY_GRANT(1) -> GRANT(1) }
#if SPLIT
  :: d_step { !BUSY && HAS_GRANT(1) -> LOOK(1) }
  :: d_step { looking == 2 && inst[1].entry && OF_LOOK(1) -> LOOK_INTO }
#else
  :: d_step { !BUSY && inst[1].entry && HAS_GRANT(1) && OF_GRANT(1) -> LOOK_INTO(1) }
#endif
#endif
#endif
  :: d_step { reading && !sending -> END_OF_READ; Tidy() }
  :: d_step { sending && !ON(read_in_time) -> assert(RIGHT_BYTES) }
#if ONE_SIDED
  :: d_step { reading && !ON(lease_from_ask) -> lease = THEIR(LEASE) } /* only now the answer arrives */
#if SPLIT
  :: d_step { reading && SEEN_EARLY -> saw = 1 }
  :: d_step { reading && SAME_LIFE && !took -> took = 1; wrong = !RIGHT_BYTES } /* step Read */
  :: d_step { took && SEEN_LAST -> assert(!wrong) }
#else
  :: d_step { reading && SAME_LIFE && IN_TIME -> assert(RIGHT_BYTES) }
#endif
#else
  :: d_step { reading && !sending && SAME_LIFE && (slot == READY && r_life == life || !ON(check_slot)) ->
       sending = 1; lease = THEIR(LEASE_OF(r_life));
       told = (ON(served_directly) && slot == READY -> REST : told) } /* step Ask */
  :: d_step { sending && lease > 0 -> assert(RIGHT_BYTES) }
  :: d_step { sending -> END_OF_READ; Tidy() } /* its bytes have arrived, or never can */
#endif
  od
}

#define AGE(ticks) ticks = (ticks > 0 -> ticks - 1 : 0)
#define VOID_ECHO(of) of.echo_of = of.echo_of && of.echo > 0
#define TOO_LATE (BUSY && lease == 0 && ON(lease_from_ask) && \
                  (ONE_SIDED && ON(check_lease) && ON(time_last) || sending && ON(read_in_time)))

#if ONE_SIDED > 1
#define AGE_LENT AGE(inst[i].lent)
#define AGE_GRANT \
  AGE(inst[i].granted); \
  if \
  :: inst[i].granted == 0 && ON(check_grant) && ON(grant_from_ask) -> inst[i].g_life = 0; inst[i].g_epoch = 0 \
  :: else \
  fi
#else
#define AGE_LENT skip
#define AGE_GRANT skip
#endif

/* A tick by the clocks of `who`; those of the others stand still. */
inline Tick(who) {
  if
  :: (who) & SHARDS ->
     for (m : 0 .. MSGS - 1) { AGE(msg[m].stamp); AGE(msg[m].echo); VOID_ECHO(msg[m]) }
     for (h : 0 .. HOSTS - 1) { AGE(fence[h].echo); VOID_ECHO(fence[h]) }
     for (i : 0 .. INSTANCES - 1) { AGE(inst[i].fresh); AGE(inst[i].served); AGE_LENT }
  :: else
  fi;
  if
  :: (who) & OWNERS ->
     for (h : 0 .. HOSTS - 1) { AGE(fence[h].proof); AGE(fence[h].silent) }
     AGE(reuse); AGE(told); AGE_REST
  :: else
  fi;
  if
  :: (who) & READERS ->
     for (i : 0 .. INSTANCES - 1) { AGE_GRANT }
     AGE(lease);
     if :: TOO_LATE -> END_OF_READ :: else fi
  :: else
  fi;
  Tidy()
}

active proctype Clock() {
  do
  :: d_step { true -> Tick(ALL) }
#if STOPS & READERS
  :: d_step { true -> Tick(SHARDS + OWNERS) }
#endif
#if STOPS & SHARDS
  :: d_step { true -> Tick(READERS + OWNERS) }
#endif
#if STOPS & OWNERS
  :: d_step { true -> Tick(READERS + SHARDS) }
#endif
#if (STOPS & READERS) && (STOPS & SHARDS)
  :: d_step { true -> Tick(OWNERS) }
#endif
#if (STOPS & READERS) && (STOPS & OWNERS)
  :: d_step { true -> Tick(SHARDS) }
#endif
#if (STOPS & SHARDS) && (STOPS & OWNERS)
  :: d_step { true -> Tick(READERS) }
#endif
  od
}
