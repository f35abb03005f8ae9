--------------------------------- MODULE Locks --------------------------------
(* The order in which each transaction of the store takes its locks. Any       *)
(* `Sessions` of them run at once, the same one more than once if that is how  *)
(* it falls; none of them may wait in a ring. Each runs once: what earlier     *)
(* transactions did, they let go of.                                           *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Sessions,       \* how many transactions run at once
    Broken          \* "none", or the name of the one rule that is broken

VARIABLES
    prog,           \* session -> the transaction that it runs
    at,             \* session -> its next step; past the last one it has ended
    queue           \* the sessions that wait, in the order of their asking

vars == <<prog, at, queue>>

(* --------------------------------- the locks ------------------------------- *)
(* A step is a lock, a mode, and what to do when it is not free: wait, or try  *)
(* and let go of everything.                                                   *)
Step(lock, mode, how) == [lock |-> lock, mode |-> mode, how |-> how]
Row(lock)   == Step(lock, "x", "wait")      \* a row FOR UPDATE, an advisory lock, a unique entry
Share(lock) == Step(lock, "s", "wait")      \* a row FOR SHARE
Read(lock)  == Step(lock, "as", "wait")     \* ACCESS SHARE
Write(lock) == Step(lock, "re", "wait")     \* ROW EXCLUSIVE
Whole(lock, how) == Step(lock, "ax", how)   \* ACCESS EXCLUSIVE

Conflict(m, n) == {m, n} \in {{"x"}, {"x", "s"}, {"ax"}, {"ax", "as"}, {"ax", "re"}}

(* Two segments stand for the ring: the victim (v) and the current one (c).    *)
(* A statement that reads a log locks each of its partitions.                  *)
Logs(lock) == <<Read(lock \o "_v"), Read(lock \o "_c")>>
Everything(how) == [n \in 1 .. 6 |-> Whole(<<"ready_v", "ready_c", "claim_v", "claim_c",
                                             "outcome_v", "outcome_c">>[n], how)]

Programs ==
    [ enqueue |->           \* in the caller's transaction, one part of it before a switch, one after
        <<Write("ready_v"), Write("ready_c"), Row("notify")>>,
      claim |->
        <<Row("lane_1")>> \o Logs("claim") \o Logs("ready") \o <<Share("life"), Write("claim_c")>>,
      finish |->            \* two rows in one flush; one of the jobs is offered again
        <<Share("life")>> \o Logs("claim") \o <<Write("outcome_v"), Row("flush_1"), Row("flush_2"),
                                                Write("ready_c"), Row("notify")>>,
      finish_again |->      \* the same flush, sent again while the first is still open
        <<Share("life")>> \o Logs("claim") \o <<Write("outcome_v")>>
        \o (IF Broken = "flush_in_any_order" THEN <<Row("flush_2"), Row("flush_1")>>
            ELSE <<Row("flush_1"), Row("flush_2")>>),
      bury |->
        <<Step("life", "x", "try")>>,
      rescue |->
        <<Row("life")>> \o (IF Broken = "rescue_takes_lane" THEN <<Row("lane_1")>> ELSE <<>>)
        \o Logs("claim") \o Logs("ready") \o <<Write("outcome_v"), Write("ready_c"), Row("notify")>>,
      cancel |->            \* jobs of two lanes in one call
        <<Row("lane_1"), Row("lane_2")>> \o Logs("claim") \o Logs("ready")
        \o <<Write("claim_c"), Write("outcome_c")>>,
      cancel_other |->      \* the same jobs, named in another order
        (IF Broken = "lanes_in_any_order" THEN <<Row("lane_2"), Row("lane_1")>>
         ELSE <<Row("lane_1"), Row("lane_2")>>) \o Logs("claim"),
      touch |->
        <<Row("segment"), Row("lane_1")>> \o Logs("claim") \o <<Write("claim_c")>>,
      move |->
        <<Row("segment")>> \o Logs("claim") \o Logs("outcome") \o <<Write("ready_v"), Write("ready_c")>>,
      reclaim |->
        LET how == IF Broken = "reclaim_waits" THEN "wait" ELSE "try" IN
        <<Row("segment"), Whole("ready_v", how), Whole("claim_v", how), Whole("outcome_v", how),
          Write("ready_c"), Write("claim_c"), Write("outcome_c")>>,
      migrate |->
        <<Row("migration")>> \o Everything(IF Broken = "migration_waits" THEN "wait" ELSE "try") ]

Names == <<"enqueue", "claim", "finish", "finish_again", "bury", "rescue", "cancel", "cancel_other", "touch",
           "move", "reclaim", "migrate">>

(* ---------------------------- who waits for whom --------------------------- *)
All == 1 .. Sessions
Ended(i) == at[i] > Len(Programs[prog[i]])
Wants(i) == Programs[prog[i]][at[i]]
Held(i) == IF Ended(i) THEN {} ELSE {Programs[prog[i]][n] : n \in 1 .. (at[i] - 1)}
Waits(i) == \E n \in 1 .. Len(queue) : queue[n] = i
Place(i) == IF Waits(i) THEN CHOOSE n \in 1 .. Len(queue) : queue[n] = i ELSE Len(queue) + 1

Clash(i, step) == \E h \in Held(i) : h.lock = step.lock /\ Conflict(h.mode, step.mode)

(* The holders of a conflicting lock, and those who asked for one earlier,     *)
(* unless they in turn wait for a lock that i already has.                     *)
Blockers(i) ==
    {j \in All \ {i} : ~Ended(j) /\
        \/ Clash(j, Wants(i))
        \/ Waits(j) /\ Place(j) < Place(i) /\ Wants(j).lock = Wants(i).lock
           /\ Conflict(Wants(j).mode, Wants(i).mode) /\ ~Clash(i, Wants(j))}

(* ---------------------------------- actions -------------------------------- *)
Init ==
    /\ \E pick \in [All -> 1 .. Len(Names)] :
          /\ \A i \in All : i > 1 => pick[i - 1] <= pick[i]         \* sessions have no names
          /\ prog = [i \in All |-> Names[pick[i]]]
    /\ at = [i \in All |-> 1]
    /\ queue = <<>>

Without(i) == SelectSeq(queue, LAMBDA j : j # i)

Take(i) ==
    /\ ~Ended(i) /\ Blockers(i) = {}
    /\ at' = [at EXCEPT ![i] = @ + 1]
    /\ queue' = Without(i)
    /\ UNCHANGED prog

Wait(i) ==
    /\ ~Ended(i) /\ ~Waits(i) /\ Wants(i).how = "wait" /\ Blockers(i) # {}
    /\ queue' = Append(queue, i)
    /\ UNCHANGED <<prog, at>>

LetGo(i) ==
    /\ ~Ended(i) /\ Wants(i).how = "try" /\ Blockers(i) # {}
    /\ at' = [at EXCEPT ![i] = Len(Programs[prog[i]]) + 1]
    /\ UNCHANGED <<prog, queue>>

Next == \E i \in All : Take(i) \/ Wait(i) \/ LetGo(i)

Spec == Init /\ [][Next]_vars

(* ------------------------------- the invariant ----------------------------- *)
(* No set of sessions in which each waits for another one of the set. *)
NoRing == ~\E S \in (SUBSET {i \in All : Waits(i)}) \ {{}} : \A i \in S : Blockers(i) \cap S # {}
===============================================================================
