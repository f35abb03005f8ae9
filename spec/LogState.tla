------------------------------- MODULE LogState -------------------------------
(* What PostgreSQL and the processes hold, and the words that the other        *)
(* modules share. No action lives here.                                        *)
(*                                                                             *)
(* A transaction is a few actions. Its writes appear in `db` in the action     *)
(* that commits it, since nobody sees them earlier; what others do see earlier *)
(* (locks, transaction ids, numbers drawn from a sequence) appears in the      *)
(* action that takes it. A statement's snapshot is the value of `db` in the    *)
(* action that reads it.                                                       *)
(*                                                                             *)
(* There is one lane: lanes share nothing but the segments, and for a segment  *)
(* a second lane is only more claims.                                          *)
EXTENDS Integers, FiniteSets, Sequences, TLC

CONSTANTS
    Producers, Workers, Rescuers,
    Nobody,         \* the reserved worker 0
    Segments,       \* how many there are in the ring
    Limit,          \* the batch limit of a claim
    Preload,        \* jobs committed in segment 1 before the first step
    MaxSeq,         \* bound on the numbers drawn
    MaxClaim,       \* bound on the claim rows written
    MaxTurn,        \* bound on the switches of the current segment
    With,           \* the parts switched on (see README.md)
    Broken          \* "none", or the name of the one rule that is broken

VARIABLES
    db,             \* the tables, the sequences, the transaction ids
    prod,           \* producers: open transactions that enqueue
    call,           \* a worker's claim call, seen from the server
    held,           \* the jobs that a worker believes it holds
    fin,            \* a worker's flush, from sending to its answer
    life,           \* alive -> dead (declared) -> gone (its rescue has ended)
    res,            \* rescuers
    rot,            \* the rotator; its step is stored, so a crash is only a pause
    look            \* the coordinator publishing a horizon

vars == <<db, prod, call, held, fin, life, res, rot, look>>

Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Min(S) == CHOOSE x \in S : \A y \in S : x <= y

RECURSIVE Lowest(_, _)
Lowest(S, n) == IF n <= 0 \/ S = {} THEN {} ELSE {Min(S)} \cup Lowest(S \ {Min(S)}, n - 1)

(* ------------------------------ idle processes ----------------------------- *)
NoTxn   == [pc |-> "idle", xid |-> 0, seg |-> 0, parts |-> {}, rows |-> {}]
NoCall  == [pc |-> "idle", xid |-> 0, listens |-> TRUE, row |-> <<>>]
NoFlush == [pc |-> "idle", xid |-> 0, claim |-> 0, seqs |-> {}, kind |-> "", seg |-> 0, rows |-> {}]
NoStep  == [pc |-> "idle", xid |-> 0, worker |-> Nobody, claim |-> 0, seq |-> 0, rows |-> {},
            seen |-> {}]
NoLook  == [pc |-> "idle", xid |-> 0, min |-> 0]

(* --------------------------------- the logs -------------------------------- *)
Visible == {r.seq : r \in db.ready}
Cursor == CHOOSE c \in db.claims : \A d \in db.claims : d.id <= c.id
Ended(c) == UNION {o.seqs : o \in {o \in db.outs : o.claim = c.id}}
Unfinished(c) == c.seqs \ Ended(c)          \* the one definition

Mine(w) == {c \in db.claims : c.worker = w /\ c.id >= db.floor[w]}   \* below the floor nobody looks

Waiting(s) == LET k == Cursor IN (s > k.hi \/ s \in k.young \cup k.old) /\ s \notin k.ahead
Covering(s) == {c \in db.claims : s \in c.seqs}
Running(s) == \E c \in Covering(s) : s \in Unfinished(c)
Finished(s) == \E c \in Covering(s) : s \in Ended(c)

(* ----------------------------- transaction ids ----------------------------- *)
RunningXids == ({prod[p].xid : p \in Producers} \cup {call[w].xid : w \in Workers}
                \cup {fin[w].xid : w \in Workers} \cup {res[r].xid : r \in Rescuers}
                \cup {look.xid}) \ {0}
SnapXmax == db.done + 1                     \* the last completed id + 1, no more than that
SnapXmin == Min({SnapXmax} \cup RunningXids)
Completed(x) == Max({db.done, x})

(* ---------------------------------- locks ---------------------------------- *)
(* At REPEATABLE READ the snapshot is older than the lane lock: the call reads *)
(* first and locks afterwards.                                                 *)
LaneFree == \A w \in Workers :
    call[w].pc \notin (IF Broken = "claim_repeatable_read" THEN {"fenced"} ELSE {"xid", "read", "fenced"})

HoldsLife(w) == \/ call[w].pc = "fenced" /\ Broken # "no_fence_on_claims"
                \/ fin[w].pc = "open" /\ Broken # "no_fence_on_outcomes"

(* Segments whose ready partition a transaction holds in ROW EXCLUSIVE mode.   *)
Offering == UNION {prod[p].parts : p \in Producers}
            \cup UNION {{r.seg : r \in fin[w].rows} : w \in Workers}
            \cup UNION {{r.seg : r \in res[r0].rows} : r0 \in Rescuers}

(* Claim, finish and rescue read all partitions, so each locks all of them     *)
(* from its first statement to its end.                                        *)
Reading == \/ \E w \in Workers : call[w].pc \in {"read", "fenced"} \/ fin[w].pc = "open"
           \/ \E r \in Rescuers : res[r].pc = "open"

(* --------------------------------- the offer ------------------------------- *)
(* windlass.offer for one job j, inside the transaction that calls it: a number, *)
(* and a row that appears with the commit.                                     *)
CanDraw == db.last < MaxSeq
Drawn(d, j) == [d EXCEPT !.last = @ + 1, !.job = Append(@, j)]
NewRow(seg) == [seq |-> db.last + 1, seg |-> seg]
Offer(d, rows) == [d EXCEPT !.ready = @ \cup rows, !.offered = @ \cup {r.seq : r \in rows}]
===============================================================================
