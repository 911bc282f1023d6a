/* The commit protocol: transactions over two participants, a replicated status table, its leaders, and a reader.

   What is replicated is a global variable, and an atomic step on it is one log entry that applied; how Raft gets it
   there is not in the model. Proposals that have not applied yet may be lost with their leader. A request stays where
   it was sent to, so it may be performed at any later time, or never, and again: lost, late and repeated. An answer is
   a look at the participant at any time after; no step is bound to happen, but under the fairness of the LTL property.

   Planted faults: see docs/model/README.md. */

#ifndef T
#define T 2                                     /* transactions */
#endif
#define P 2                                     /* participants */
#ifndef CRASHES
#define CRASHES 1                               /* changes of the status leader */
#endif
/* -DWRITTEN: start where both have written to both tables, and nothing expires */
#define BIT(n)  (1 << (n))
#define AT(t, p) ((t) * P + (p))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

mtype = { NONE, OPEN, CIP, FIP, COMMITTED, AIP, ABORTED };

/* The status table: replicated. Bytes that end in `_by` hold a bit for each participant. */
mtype state[T] = OPEN;
byte registered_by[T], commit_ts[T], last_commit_ts;

/* The participants: replicated. */
mtype here[T * P] = NONE;
bool wrote[T * P];
byte prepare_ts[T * P], local_ts[T * P];
byte clock[P];                                  /* they disagree: see init */

/* The status leader's memory, and its proposals in the log. */
byte task_by[T], prepared_by[T], highest_ts[T];
bool committing[T], expiring[T], deciding[T];
byte deciding_ts[T];

/* Requests that were sent to participants. */
byte prepare_sent_by[T], finalize_sent_by[T], abort_sent_by[T];

bool asked[T], told_committed[T];
byte crashes;

#define DECIDED(t)   (state[t] == FIP || state[t] == COMMITTED)
#define UNDECIDED(t) (state[t] == OPEN || state[t] == CIP)
#define ALL_ARE(t, s) ((!(registered_by[t] & 1) || here[AT(t, 0)] == s) && \
                       (!(registered_by[t] & 2) || here[AT(t, 1)] == s))
#define PREPARED(t, p) (here[AT(t, p)] == CIP || here[AT(t, p)] == COMMITTED)

inline begin_abort(t) {
  if
  :: registered_by[t] == 0 -> state[t] = ABORTED
  :: else -> state[t] = AIP
  fi
}

proctype client(byte t) {
end: do
  :: atomic {                                   /* a table registers before the first write to it; any time, also late */
#ifdef FAULT_LATE_REGISTER
       (state[t] == OPEN || state[t] == CIP) && registered_by[t] != 3 ->
#else
       state[t] == OPEN && registered_by[t] != 3 ->
#endif
       if
       :: !(registered_by[t] & 1) -> registered_by[t] = registered_by[t] | 1
       :: !(registered_by[t] & 2) -> registered_by[t] = registered_by[t] | 2
       fi }
  :: atomic {                                   /* the commit reaches the leader: participants prepare early */
       state[t] == OPEN && !committing[t] ->
       asked[t] = true; committing[t] = true;
       task_by[t] = registered_by[t]; prepare_sent_by[t] = prepare_sent_by[t] | registered_by[t] }
  :: atomic {                                   /* BeginCommit applies */
       committing[t] ->
       committing[t] = false;
       if
       :: state[t] == OPEN && registered_by[t] == 0 -> state[t] = COMMITTED
       :: state[t] == OPEN && registered_by[t] != 0 -> state[t] = CIP
       :: else
       fi }
#ifdef LIVENESS                                 /* fairness must not make a client abort what has stopped */
  :: atomic { state[t] == OPEN -> begin_abort(t) }
#else
  :: atomic { UNDECIDED(t) -> begin_abort(t) }  /* by the client, or because a participant refused */
#endif
#ifndef WRITTEN
  :: atomic { state[t] == OPEN && !expiring[t] -> expiring[t] = true }
#endif
  :: atomic {                                   /* Expire applies */
       expiring[t] ->
       expiring[t] = false;
       if
#ifdef FAULT_EXPIRE
       :: state[t] != ABORTED && state[t] != COMMITTED -> begin_abort(t)
#else
       :: state[t] == OPEN -> begin_abort(t)
#endif
       :: else
       fi }
  :: atomic { asked[t] && DECIDED(t) && !told_committed[t] -> told_committed[t] = true }
  od
}

inline answer(t, p) {                           /* prepared: the leader looks at any time after */
  atomic {
    UNDECIDED(t) && (task_by[t] & ~prepared_by[t] & BIT(p)) && PREPARED(t, p) ->
    prepared_by[t] = prepared_by[t] | BIT(p);
#ifdef FAULT_ONE_TIMESTAMP
    highest_ts[t] = prepare_ts[AT(t, p)]
#else
    highest_ts[t] = MAX(highest_ts[t], prepare_ts[AT(t, p)])
#endif
  }
}

proctype leader(byte t) {
end: do
  :: atomic {                                   /* it hears that COMMIT_IN_PROGRESS applied: later than it did */
#ifdef FAULT_FORGETFUL_LEADER
       state[t] == CIP && task_by[t] != registered_by[t] && crashes == 0 ->
#else
       state[t] == CIP && task_by[t] != registered_by[t] ->
#endif
       task_by[t] = registered_by[t]; prepare_sent_by[t] = prepare_sent_by[t] | registered_by[t] }
  :: answer(t, 0)
  :: answer(t, 1)
  :: atomic {                                   /* all have: the decision is proposed */
#ifdef FAULT_EARLY_DECISION
       state[t] == CIP && !deciding[t] && prepared_by[t] == task_by[t] ->
#else
       state[t] == CIP && !deciding[t] && prepared_by[t] == registered_by[t] ->
#endif
#ifdef FAULT_ACK
       told_committed[t] = true;
#endif
       deciding[t] = true; deciding_ts[t] = highest_ts[t] }
  :: atomic {                                   /* FinalizeCommit applies: the commit point */
       deciding[t] ->
       deciding[t] = false;
       if
       :: state[t] == CIP ->
          state[t] = FIP;
#ifdef FAULT_TIMESTAMPS_FALL
          commit_ts[t] = deciding_ts[t];
          last_commit_ts = MAX(last_commit_ts, commit_ts[t]);
#else
          commit_ts[t] = MAX(deciding_ts[t], last_commit_ts + 1);
          last_commit_ts = commit_ts[t];
#endif
       :: else
       fi;
       deciding_ts[t] = 0 }
  :: atomic { state[t] == FIP && finalize_sent_by[t] != registered_by[t] -> finalize_sent_by[t] = registered_by[t] }
  :: atomic { state[t] == AIP && abort_sent_by[t] != registered_by[t] -> abort_sent_by[t] = registered_by[t] }
  :: atomic { state[t] == FIP && ALL_ARE(t, COMMITTED) -> state[t] = COMMITTED }
#ifdef FAULT_TOMBSTONE
  :: atomic { state[t] == AIP && abort_sent_by[t] == registered_by[t] -> state[t] = ABORTED }
#else
  :: atomic { state[t] == AIP && ALL_ARE(t, ABORTED) -> state[t] = ABORTED }
#endif
  od
}

proctype participant(byte t; byte p) {
end: do
  :: atomic {                                   /* the first write, some time after the registration */
       (registered_by[t] & BIT(p)) && here[AT(t, p)] == NONE ->
       here[AT(t, p)] = OPEN; wrote[AT(t, p)] = true }
  :: atomic {
       (prepare_sent_by[t] & BIT(p)) && (here[AT(t, p)] == NONE || here[AT(t, p)] == OPEN) ->
       here[AT(t, p)] = CIP; clock[p] = clock[p] + 1; prepare_ts[AT(t, p)] = clock[p] }
  :: atomic {
       (finalize_sent_by[t] & BIT(p)) && here[AT(t, p)] == CIP ->
       here[AT(t, p)] = COMMITTED; local_ts[AT(t, p)] = commit_ts[t]; clock[p] = MAX(clock[p], commit_ts[t]) }
#ifdef FAULT_TOMBSTONE
  :: atomic { (abort_sent_by[t] & BIT(p)) && (here[AT(t, p)] == OPEN || here[AT(t, p)] == CIP) ->
#else
  :: atomic { (abort_sent_by[t] & BIT(p)) && here[AT(t, p)] != COMMITTED && here[AT(t, p)] != ABORTED ->
#endif
       here[AT(t, p)] = ABORTED; prepare_ts[AT(t, p)] = 0 }
  od
}

/* Another status leader: what was in memory is gone; each proposal in the log survives or does not. */
proctype failures() {
  byte t;
end: do
  :: atomic {
       crashes < CRASHES ->
       crashes++;
       for (t : 0 .. T - 1) {
         prepared_by[t] = 0; highest_ts[t] = 0; task_by[t] = 0;
         if :: committing[t] -> committing[t] = false :: true fi;
         if :: expiring[t] -> expiring[t] = false :: true fi;
         if :: deciding[t] -> deciding[t] = false; deciding_ts[t] = 0 :: true fi;
       }
       t = 0 }
  od
}

/* A snapshot, and both tables read at its timestamp: at each, first what is there, later the outcomes that it asked
   the status table for. At the end, the first table once more. */
#define THERE(t, p)   (wrote[AT(t, p)] && here[AT(t, p)] == COMMITTED && local_ts[AT(t, p)] <= ts)
#define ASK(t, p)     (wrote[AT(t, p)] && here[AT(t, p)] == CIP && prepare_ts[AT(t, p)] <= ts)
#ifdef FAULT_READ_PREPARED
#define OUTCOME(t)    false
#else
#define OUTCOME(t)    (DECIDED(t) && commit_ts[t] <= ts)
#endif

inline look(p) {
  atomic {
    for (t : 0 .. T - 1) {
      if :: THERE(t, p) -> there = there | BIT(t) :: else fi;
      if :: ASK(t, p) -> open = open | BIT(t) :: else fi
    }
    t = 0 }
}
inline resolve(seen) {
  atomic {
    for (t : 0 .. T - 1) {
      if
      :: (there & BIT(t)) || ((open & BIT(t)) && OUTCOME(t)) -> seen = seen | BIT(t)
      :: else
      fi
    }
    t = 0; there = 0; open = 0 }
}
#define BOTH(t)       (wrote[AT(t, 0)] && wrote[AT(t, 1)])

proctype reader() {
  byte ts, t, there, open, must, first, second, again;
end: atomic {
    last_commit_ts > 0 ->
    ts = last_commit_ts;
    for (t : 0 .. T - 1) { if :: told_committed[t] -> must = must | BIT(t) :: else fi }
    t = 0 }
  look(0); resolve(first);
  look(1); resolve(second);
  look(0); resolve(again);
  atomic {
    assert(first == again);                     /* a timestamp is read alike for ever */
    for (t : 0 .. T - 1) {
      if
      :: BOTH(t) -> assert(((first >> t) & 1) == ((second >> t) & 1))          /* all of it or none of it */
      :: else
      fi;
      if
      :: must & BIT(t) ->                       /* acknowledged before the snapshot was taken */
         assert(!wrote[AT(t, 0)] || (first & BIT(t)));
         assert(!wrote[AT(t, 1)] || (second & BIT(t)))
      :: else
      fi
    } }
}

/* What must hold in every state, for a transaction and a participant. */
#define ONE_DECISION(t, p)  (!(here[AT(t, p)] == COMMITTED) || DECIDED(t))
#define NO_HALF(t, p)       (!(here[AT(t, p)] == ABORTED) || state[t] == AIP || state[t] == ABORTED)
#define ALL_PREPARED(t, p)  (!DECIDED(t) || !(registered_by[t] & BIT(p)) || PREPARED(t, p))
#define ABOVE(t, p)         (!DECIDED(t) || !PREPARED(t, p) || !(registered_by[t] & BIT(p)) || \
                             commit_ts[t] >= prepare_ts[AT(t, p)])
#define SAME_TS(t, p)       (!(here[AT(t, p)] == COMMITTED) || local_ts[AT(t, p)] == commit_ts[t])
#define ENDED(t, p)         (!(registered_by[t] & BIT(p)) || \
                             ((state[t] != COMMITTED || here[AT(t, p)] == COMMITTED) && \
                              (state[t] != ABORTED || (here[AT(t, p)] == ABORTED))))
#define NO_ORPHAN(t, p)     (state[t] != ABORTED || here[AT(t, p)] != OPEN)
#define ACKNOWLEDGED(t)     (!told_committed[t] || DECIDED(t))
#define HOLDS(t, p) \
  (ONE_DECISION(t, p) && NO_HALF(t, p) && ALL_PREPARED(t, p) && ABOVE(t, p) && SAME_TS(t, p) && ENDED(t, p) && \
   NO_ORPHAN(t, p) && ACKNOWLEDGED(t))

proctype monitor(byte t; byte p) {
end: atomic { !HOLDS(t, p) -> assert(false) }
}

#ifdef LIVENESS
/* With fairness, a transaction that was asked to commit ends, whatever it ends as. */
ltl ends { [] ((state[0] == CIP || state[0] == AIP || state[0] == FIP) -> <> (state[0] == COMMITTED || state[0] == ABORTED)) }
#endif

init {
  byte t;
  atomic {
    clock[0] = 3; clock[1] = 0;
    for (t : 0 .. T - 1) {
#ifdef WRITTEN
      registered_by[t] = 3;
      here[AT(t, 0)] = OPEN; wrote[AT(t, 0)] = true;
      here[AT(t, 1)] = OPEN; wrote[AT(t, 1)] = true;
#endif
      run client(t); run leader(t); run participant(t, 0); run participant(t, 1);
#ifndef LIVENESS
      run monitor(t, 0); run monitor(t, 1);
#endif
    }
    t = 0;
    run failures();
#ifndef LIVENESS
    run reader();
#endif
  }
}
