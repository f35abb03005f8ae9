-------------------------------- MODULE Enqueue -------------------------------
(* Producers, and the horizon that the coordinator publishes for the holes     *)
(* they leave. Producers never wait for each other and end in any order.       *)
EXTENDS LogState

(* The id comes first: whoever sees a number of this transaction takes its own *)
(* id later, and so a higher one.                                              *)
Begin(p) ==
    /\ prod[p].pc = "idle" /\ CanDraw
    /\ db' = [db EXCEPT !.xid = @ + 1]
    /\ prod' = [prod EXCEPT ![p].pc = IF "publish" \in With THEN "xid" ELSE "locked", ![p].xid = db.xid]
    /\ UNCHANGED <<call, held, fin, life, res, rot, look>>

(* ROW EXCLUSIVE on ready, held to the end: what the published horizon looks for. *)
LockReady(p) ==
    /\ prod[p].pc = "xid"
    /\ prod' = [prod EXCEPT ![p].pc = "locked"]
    /\ UNCHANGED <<db, call, held, fin, life, res, rot, look>>

(* The current segment is a sequence: always the newest value, at any isolation level. *)
ReadCurrent(p) ==
    /\ "rotate" \in With /\ prod[p].pc = "locked" /\ CanDraw
    /\ prod' = [prod EXCEPT ![p].pc = "seg", ![p].seg = db.cur]
    /\ UNCHANGED <<db, call, held, fin, life, res, rot, look>>

(* Lock the partition, look at current again. If it has changed, read it anew:  *)
(* the lock stays, but nothing was written under it.                            *)
Draw(p) ==
    /\ prod[p].pc = (IF "rotate" \in With THEN "seg" ELSE "locked") /\ CanDraw
    /\ LET seg  == IF "rotate" \in With THEN prod[p].seg ELSE db.cur
           good == seg = db.cur \/ Broken = "no_recheck_of_current" IN
       /\ prod' = [prod EXCEPT ![p].pc = "locked", ![p].parts = @ \cup {seg}, ![p].seg = 0,
                               ![p].rows = IF good THEN @ \cup {NewRow(seg)} ELSE @]
       /\ db' = IF good THEN Drawn(db, db.last + 1) ELSE db
    /\ UNCHANGED <<call, held, fin, life, res, rot, look>>

Commit(p) ==
    /\ prod[p].pc = "locked" /\ prod[p].rows # {}
    /\ db' = [Offer(db, prod[p].rows) EXCEPT !.done = Completed(prod[p].xid)]
    /\ prod' = [prod EXCEPT ![p] = NoTxn]
    /\ UNCHANGED <<call, held, fin, life, res, rot, look>>

Rollback(p) ==
    /\ prod[p].pc = "locked" /\ prod[p].rows # {}
    /\ db' = [db EXCEPT !.done = Completed(prod[p].xid)]
    /\ prod' = [prod EXCEPT ![p] = NoTxn]
    /\ UNCHANGED <<call, held, fin, life, res, rot, look>>

(* ---------------------------- published horizon ---------------------------- *)
Lockers == {prod[p].xid : p \in {p \in Producers : prod[p].pc \in {"locked", "seg"}}}
           \cup {fin[w].xid : w \in {w \in Workers : fin[w].rows # {}}}
           \cup {res[r].xid : r \in {r \in Rescuers : res[r].rows # {}}}

LookXid ==
    /\ "publish" \in With
    /\ look.pc = IF Broken = "look_before_xid" THEN "looked" ELSE "idle"
    /\ db' = [db EXCEPT !.xid = @ + 1]
    /\ look' = [look EXCEPT !.pc = IF Broken = "look_before_xid" THEN "ready" ELSE "xid", !.xid = db.xid]
    /\ UNCHANGED <<prod, call, held, fin, life, res, rot>>

(* pg_locks after the own id: a number drawn before that id has its locker here, or ended. *)
LookLocks ==
    /\ "publish" \in With
    /\ look.pc = IF Broken = "look_before_xid" THEN "idle" ELSE "xid"
    /\ look' = [look EXCEPT !.pc = IF Broken = "look_before_xid" THEN "looked" ELSE "ready",
                            !.min = IF Lockers = {} THEN 0 ELSE Min(Lockers)]
    /\ UNCHANGED <<db, prod, call, held, fin, life, res, rot>>

Publish ==
    /\ look.pc = "ready"
    /\ db' = [db EXCEPT !.pub = Max({@, IF look.min = 0 THEN look.xid ELSE Min({look.min, look.xid})}),
                        !.done = Completed(look.xid)]
    /\ look' = NoLook
    /\ UNCHANGED <<prod, call, held, fin, life, res, rot>>
===============================================================================
