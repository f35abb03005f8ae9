--------------------------------- MODULE Logs ---------------------------------
(* The three logs: how the parts act together, and what must always be true.   *)
(* README.md tells the story in words and names the SQL function of each action. *)
EXTENDS Enqueue, Claim, Finish, Rescue, Rotation

Init ==
    /\ db = [last |-> Preload, job |-> [s \in 1 .. Preload |-> s],
             xid |-> 2, done |-> 1, pub |-> 0, cur |-> 1,
             ready |-> {[seq |-> s, seg |-> 1] : s \in 1 .. Preload},
             claims |-> {[id |-> 0, seg |-> 1, worker |-> Nobody, seqs |-> {}, hi |-> 0,
                          young |-> {}, old |-> {}, oh |-> 0, ahead |-> {}]},
             outs |-> {},
             floor |-> [w \in Workers |-> 0],
             offered |-> 1 .. Preload,      \* history: numbers whose row was committed
             final |-> {},                  \* history: jobs that ended for good
             bad |-> FALSE]                 \* history: a success was answered and not written
    /\ prod = [p \in Producers |-> NoTxn]
    /\ call = [w \in Workers |-> NoCall]
    /\ held = [w \in Workers |-> {}]
    /\ fin = [w \in Workers |-> NoFlush]
    /\ life = [w \in Workers |-> "alive"]
    /\ res = [r \in Rescuers |-> NoStep]
    /\ rot = NoRot(0)
    /\ look = NoLook

Next ==
    \/ \E p \in Producers : Begin(p) \/ LockReady(p) \/ ReadCurrent(p) \/ Draw(p) \/ Commit(p) \/ Rollback(p)
    \/ LookXid \/ LookLocks \/ Publish
    \/ \E w \in Workers : ClaimXid(w) \/ ClaimRead(w) \/ ClaimFence(w) \/ ClaimCommit(w) \/ ClaimAbort(w)
                          \/ Answer(w) \/ GiveUp(w)
    \/ \E s \in 1 .. db.last : TakeAhead(s)
    \/ \E w \in Workers : Send(w) \/ FinishSnapshot(w) \/ FinishOpen(w) \/ FinishCommit(w)
                          \/ FinishUnanswered(w) \/ FinishAbort(w)
    \/ \E w \in Workers : Heartbeat(w) \/ DeclareDead(w) \/ RescueEnd(w) \/ \E r \in Rescuers : RescueSnapshot(r, w) \/ RescueOpen(r, w)
    \/ \E r \in Rescuers : RescueCommit(r) \/ RescueCrash(r)
    \/ \E seg \in 1 .. Segments : Pick(seg)
    \/ Switch \/ Seal \/ Touch \/ Judge \/ Sweep \/ SweepEnd
    \/ MoveRead \/ MoveCommit \/ MoveEnd \/ Reclaim \/ LetGo

Spec == Init /\ [][Next]_vars

(* -------------------------------- invariants ------------------------------- *)
Offers(j) == {s \in db.offered : db.job[s] = j}
Takeable(s) == s \in Visible /\ Waiting(s)
Taken(s) == s \in Visible /\ \E c \in Covering(s) :
                /\ s \in Unfinished(c)
                /\ c.worker \in Workers /\ life[c.worker] # "gone"

(* Every committed job is finished, can be claimed, or is in a claim that someone answers for. *)
NothingLost == \A j \in {db.job[s] : s \in db.offered} \ db.final : \E s \in Offers(j) : Takeable(s) \/ Taken(s)

(* A lane has its cursor at all times. *)
HasCursor == db.claims # {}

(* An offer is claimed once; a job has one living offer. *)
ClaimedOnce == \A c, d \in db.claims : c.id # d.id => c.seqs \cap d.seqs = {}
OneOffer == \A s, t \in db.offered : s # t /\ db.job[s] = db.job[t] =>
                ~((Takeable(s) \/ Running(s)) /\ (Takeable(t) \/ Running(t)))

(* What is claimed was committed. *)
NoPhantom == \A c \in db.claims : c.seqs \subseteq db.offered

(* A finished job is not offered again. *)
FinishedStays == \A s \in db.offered : db.job[s] \in db.final => ~Takeable(s) /\ ~Running(s)

(* No job is run by two living workers: what a worker holds and has not sent the outcome of. *)
Runs(w) == IF life[w] = "alive" THEN {db.job[s] : s \in held[w] \ fin[w].seqs} ELSE {}
OneRunner == \A v, w \in Workers : v # w => Runs(v) \cap Runs(w) = {}

(* Once it is declared dead a worker writes nothing: once its rescue has ended, none of its claims is open. *)
NothingStranded == \A c \in db.claims : c.worker \in Workers /\ life[c.worker] = "gone" => Unfinished(c) = {}

(* A claimed offer ends once. *)
EndsOnce == \A o, p \in db.outs : o # p /\ o.claim = p.claim => o.seqs \cap p.seqs = {}

(* A success that was answered is written. *)
AnsweredIsWritten == ~db.bad

(* Rows move, they are never copied; and the alarm for orphans never rings. *)
OneRow == \A q, r \in db.ready : q.seq = r.seq => q = r
NoOrphan == \A r \in db.ready : Waiting(r.seq) \/ Covering(r.seq) # {}

(* --------------------------------- fewer states ---------------------------- *)
Symmetry == Permutations(Producers) \cup Permutations(Workers) \cup Permutations(Rescuers)

(* Two states are the same when they differ in nothing that an action or an    *)
(* invariant reads: transaction ids count by their order only, and only in     *)
(* running transactions and in the horizon of a living generation; of the      *)
(* claim rows only the newest is read for its cursor. A broken variant may     *)
(* read more: it is checked without this view.                                 *)
View ==
    LET k == Cursor
        ids == RunningXids \cup (IF k.old = {} THEN {} ELSE {k.oh})
        R(x) == Cardinality({y \in ids : y <= x})
    IN  <<[db EXCEPT !.xid = 0, !.done = 0, !.pub = R(@),
                     !.claims = {<<c.id, c.seg, c.worker, c.seqs>> : c \in @}],
          k.hi, k.young, k.old, IF k.old = {} THEN 0 ELSE R(k.oh), k.ahead,
          [p \in Producers |-> [prod[p] EXCEPT !.xid = R(@)]],
          [w \in Workers |-> IF call[w].pc \in {"read", "fenced"}
                              THEN [call[w] EXCEPT !.xid = R(@), !.row.oh = R(@)] ELSE call[w]],
          [w \in Workers |-> [fin[w] EXCEPT !.xid = R(@)]],
          [r \in Rescuers |-> [res[r] EXCEPT !.xid = R(@)]],
          [look EXCEPT !.xid = R(@), !.min = R(@)], held, life, rot>>
===============================================================================
