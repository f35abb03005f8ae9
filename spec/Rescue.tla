-------------------------------- MODULE Rescue --------------------------------
(* Death, and the rescue of a dead worker's jobs in steps, by any number of   *)
(* rescuers, each of which may die between two steps.                          *)
EXTENDS LogState

(* A worker is declared dead whenever its heartbeat seems to stand still, so at any time   *)
(* at all: but only if nobody holds its life row.                              *)
DeclareDead(w) ==
    /\ "rescue" \in With /\ life[w] = "alive" /\ ~HoldsLife(w)
    /\ life' = [life EXCEPT ![w] = "dead"]
    /\ UNCHANGED <<db, prod, call, held, fin, res, rot, look>>

(* A heartbeat may raise the floor below which nobody looks for the worker's claims. *)
(* No claim of it is then between its id and its commit, since the life row is *)
(* held FOR UPDATE. What the worker knows is not enough: the answer to an older *)
(* claim may have been lost.                                                    *)
Heartbeat(w) ==
    /\ "floor" \in With /\ life[w] = "alive" /\ (~HoldsLife(w) \/ Broken = "floor_by_what_is_held")
    /\ LET open == IF Broken = "floor_by_what_is_held"
                   THEN {c \in db.claims : c.worker = w /\ c.seqs \cap held[w] # {}}
                   ELSE {c \in db.claims : c.worker = w /\ Unfinished(c) # {}}
           floor == IF open # {} THEN Min({c.id : c \in open})
                    ELSE IF Broken = "floor_by_what_is_held" THEN 0 ELSE Cursor.id + 1 IN
       /\ floor > db.floor[w]
       /\ db' = [db EXCEPT !.floor[w] = floor]
    /\ UNCHANGED <<prod, call, held, fin, life, res, rot, look>>

LifeFree(w) == Broken = "rescue_without_lock" \/ \A r \in Rescuers : res[r].worker # w

(* One bounded step: the life row FOR UPDATE, then one unfinished job. *)
RescueOpen(r, w) ==
    /\ res[r].pc = "idle" /\ life[w] = "dead" /\ LifeFree(w) /\ CanDraw
    /\ \E c \in {c \in Mine(w) : Unfinished(c) # {}} :
       LET s == Min(Unfinished(c)) IN
       /\ res' = [res EXCEPT ![r] = [NoStep EXCEPT !.pc = "open", !.xid = db.xid, !.worker = w, !.claim = c.id,
                                                   !.seq = s, !.rows = {NewRow(db.cur)}]]
       /\ db' = [Drawn(db, db.job[s]) EXCEPT !.xid = @ + 1]
    /\ UNCHANGED <<prod, call, held, fin, life, rot, look>>

RescueCommit(r) ==
    /\ res[r].pc = "open"
    /\ \E c \in {c \in db.claims : c.id = res[r].claim} :
       db' = [Offer(db, res[r].rows) EXCEPT
                 !.outs = @ \cup {[claim |-> c.id, seg |-> IF Broken = "outcome_in_current" THEN db.cur ELSE c.seg,
                                   flush |-> res[r].seq, kind |-> "lost", seqs |-> {res[r].seq}]},
                 !.done = Completed(res[r].xid)]
    /\ res' = [res EXCEPT ![r] = NoStep]
    /\ UNCHANGED <<prod, call, held, fin, life, rot, look>>

RescueCrash(r) ==
    /\ res[r].pc = "open"
    /\ db' = [db EXCEPT !.done = Completed(res[r].xid)]
    /\ res' = [res EXCEPT ![r] = NoStep]
    /\ UNCHANGED <<prod, call, held, fin, life, rot, look>>

(* At REPEATABLE READ the snapshot may be older than a reclaim, which moves     *)
(* claims out of its sight.                                                    *)
RescueSnapshot(r, w) ==
    /\ Broken = "rescue_repeatable_read" /\ res[r].pc = "idle" /\ life[w] = "dead" /\ LifeFree(w)
    /\ res' = [res EXCEPT ![r] = [NoStep EXCEPT !.pc = "snap", !.worker = w,
                                                !.seen = {<<c.id, c.seg>> : c \in Mine(w)}]]
    /\ UNCHANGED <<db, prod, call, held, fin, life, rot, look>>

Sees(c, w) == \A r \in Rescuers : res[r].pc = "snap" /\ res[r].worker = w => <<c.id, c.seg>> \in res[r].seen

(* Nothing unfinished is left: nobody will look at this worker again. *)
RescueEnd(w) ==
    /\ life[w] = "dead" /\ (LifeFree(w) \/ \E r \in Rescuers : res[r].pc = "snap" /\ res[r].worker = w)
    /\ \A c \in Mine(w) : Unfinished(c) = {} \/ ~Sees(c, w)
    /\ life' = [life EXCEPT ![w] = "gone"]
    /\ UNCHANGED <<db, prod, call, held, fin, res, rot, look>>
===============================================================================
