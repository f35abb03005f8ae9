--------------------------------- MODULE Locks --------------------------------
(* The order in which the transactions below take their locks. Any             *)
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

Still(lock) == Step(lock, "sre", "wait")    \* SHARE ROW EXCLUSIVE: nobody writes

Conflict(m, n) == {m, n} \in {{"x"}, {"x", "s"}, {"ax"}, {"ax", "as"}, {"ax", "re"}, {"ax", "sre"},
                              {"sre"}, {"sre", "re"}}

(* Two segments stand for the ring: the victim (v) and the current one (c).    *)
(* A statement that reads a log locks each of its partitions; only the victim  *)
(* is ever locked as a whole, so that one stands for all. One that writes into *)
(* ready locks the parent, then the partition.                                 *)
Log(name) == <<Read(name \o "_v")>>
Offer == <<Write("ready"), Write("ready_c")>>
Tables == <<"ready", "ready_v", "ready_c", "claim_v", "claim_c", "outcome_v", "outcome_c">>

Programs ==
    [ enqueue |->           \* with a unique key; in the caller's transaction, before and after a switch
        <<Row("key"), Write("ready"), Write("ready_v"), Write("ready_c"), Row("notify")>>,
      claim |->             \* of jobs that need tokens: of the bucket it lets go after a moment
        LET how == IF Broken = "claim_waits_for_tokens" THEN "wait" ELSE "try" IN
        <<Row("lane_1")>> \o Log("claim") \o Log("ready")
        \o <<Share("life"), Write("claim_c"), Step("bucket", "x", how)>>,
      tokens |->            \* taken by hand, in a transaction that goes on
        <<Row("bucket"), Row("lane_1")>>,
      finish |->            \* two rows in one flush; one job frees its key, one is offered again
        <<Share("life")>> \o Log("claim") \o <<Write("outcome_v"), Row("flush_1"), Row("flush_2"), Row("key")>>
        \o Offer \o <<Row("notify")>>,
      finish_again |->      \* the same flush, sent again while the first is still open
        <<Share("life")>> \o Log("claim") \o <<Write("outcome_v")>>
        \o (IF Broken = "flush_in_any_order" THEN <<Row("flush_2"), Row("flush_1")>>
            ELSE <<Row("flush_1"), Row("flush_2")>>),
      declare_dead |->
        <<Step("life", "x", "try")>>,
      rescue |->
        <<Row("life")>> \o (IF Broken = "rescue_takes_lane" THEN <<Row("lane_1")>> ELSE <<>>)
        \o Log("claim") \o Log("ready") \o <<Write("outcome_v"), Row("key")>> \o Offer,
      cancel |->            \* jobs of two lanes in one transaction
        <<Row("lane_1"), Row("lane_2")>> \o Log("claim") \o Log("ready")
        \o <<Write("claim_c"), Write("outcome_c"), Row("key")>>,
      cancel_more |->       \* the same lanes, named in another order; or after an enqueue in one transaction
        IF Broken = "cancel_after_enqueue" THEN <<Row("key")>> \o Offer \o <<Row("lane_1")>>
        ELSE IF Broken = "lanes_in_any_order" THEN <<Row("lane_2"), Row("lane_1")>>
        ELSE <<Row("lane_1"), Row("lane_2")>>,
      cancel_aside |->      \* a job of a lane, then one that waits aside
        <<Row("lane_1"), Row("aside")>> \o Offer \o <<Write("claim_c"), Write("outcome_c")>>,
      cancel_parent |->     \* its parts, in two lanes; then the next ones are offered
        <<Row("parent"), Row("lane_1"), Row("lane_2")>> \o Log("claim") \o <<Write("claim_c"), Write("outcome_c")>> \o Offer,
      take_back |->         \* a chore that ends a job for another one's sake: it holds the other one's row
        LET how == IF Broken = "chore_waits_for_lane" THEN "wait" ELSE "try" IN
        <<Step("aside", "x", "try"), Step("lane_1", "x", how)>> \o Log("claim") \o Log("ready")
        \o <<Write("claim_c"), Write("outcome_c")>>,
      touch |->
        <<Row("rotation"), Row("lane_1")>> \o Log("claim") \o <<Write("claim_c")>>,
      move |->
        <<Row("rotation"), Write("ready_c")>> \o Log("claim") \o Log("outcome")
        \o <<Write("ready"), Write("ready_v")>>,
      reclaim |->
        LET how == IF Broken = "reclaim_waits" THEN "wait" ELSE "try" IN
        <<Row("rotation"), Whole("ready_v", how), Whole("claim_v", how), Whole("outcome_v", how)>>
        \o Offer \o <<Write("claim_c"), Write("outcome_c")>>,
      adopt |->             \* waits for producers and rotators, holding nothing that they want; then only tries
        LET how == IF Broken = "adopt_waits" THEN "wait" ELSE "try" IN
        <<Row("rotation"), Still("ready")>> \o (IF Broken = "adopt_takes_partitions" THEN <<Still("ready_c")>> ELSE <<>>)
        \o <<Step("lane_1", "x", how), Step("lane_2", "x", how),
          Step("life", "x", how)>> \o Log("claim") \o Log("ready") \o <<Write("claim_c")>>,
      retry |->             \* notes of failures pin the segment before the offer
        <<Write("ready_c")>> \o Offer,
      migrate |->
        <<Row("migration")>>
        \o [n \in 1 .. Len(Tables) |-> Whole(Tables[n], IF Broken = "migration_waits" THEN "wait" ELSE "try")] ]

(* Where nothing is broken, the two that differ only in their order are not needed. *)
Names == <<"enqueue", "claim", "tokens", "finish", "declare_dead", "rescue", "cancel", "cancel_aside", "cancel_parent",
           "take_back", "touch", "move", "reclaim", "adopt", "retry", "migrate">>
         \o (IF Broken = "none" THEN <<>> ELSE <<"finish_again", "cancel_more">>)

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
