--------------------------------- MODULE Claim --------------------------------
(* Claiming: the holes, the idle row, the worker's fence, the answer that may  *)
(* be lost, and the waiting job that is taken ahead of the cursor.             *)
EXTENDS LogState

(* A generation of holes is dead when every transaction that could still fill  *)
(* it ended before the snapshot that probes it.                                *)
Dead(k) == k.old # {} /\ (Max({SnapXmin, db.pub}) >= k.oh \/ Broken = "hole_without_proof")

(* What the read decides: up to n jobs, those in holes first if it probes them. *)
(* Gaps join the young holes. Old ones are dropped if they are dead and every   *)
(* visible job in them is taken; then the young become the old ones, and their  *)
(* horizon (0 for now) will be the claim's own xid. A claim that takes nothing  *)
(* is an idle row: it passes all numbers drawn so far.                          *)
Plan(w, probes, n) ==
    LET k     == Cursor
        vis   == Visible
        holes == IF probes THEN vis \cap (k.young \cup k.old) ELSE {}
        take  == Lowest(holes \cup {s \in vis : s > k.hi /\ s \notin k.ahead}, n)
        hi    == IF take = {} THEN db.last ELSE Max({k.hi} \cup take)
        gaps  == {s \in (k.hi + 1) .. hi : s \notin take \cup k.ahead}
        young == (k.young \ take) \cup gaps
        drop  == probes /\ Dead(k) /\ (vis \cap k.old \subseteq take \/ Broken = "hole_beyond_limit")
        old   == IF drop THEN {} ELSE k.old \ take
    IN  [id |-> k.id + 1, seg |-> db.cur, worker |-> w, seqs |-> take, hi |-> hi,
         young |-> IF old = {} THEN {} ELSE young,
         old   |-> IF old = {} THEN young ELSE old,
         oh    |-> IF old # {} THEN k.oh ELSE IF Broken = "horizon_xmax" THEN SnapXmax ELSE 0,
         ahead |-> {s \in k.ahead : s > hi}]

(* An idle row is written only where it changes something. *)
Says(row, k) == row.seqs # {} \/ row.hi # k.hi \/ row.young # k.young \/ row.old # k.old

(* The wrong order: an id before the read. *)
ClaimXid(w) ==
    /\ Broken = "claim_xid_before_read"
    /\ call[w].pc = "idle" /\ life[w] = "alive" /\ LaneFree /\ Cursor.id < MaxClaim
    /\ db' = [db EXCEPT !.xid = @ + 1]
    /\ call' = [call EXCEPT ![w].pc = "xid", ![w].xid = db.xid]
    /\ UNCHANGED <<prod, held, fin, life, res, rot, look>>

(* Holes are probed now and then, not by every claim. *)
Probing == IF Cursor.young \cup Cursor.old = {} THEN {FALSE} ELSE BOOLEAN

(* Lane lock, then the read with a fresh snapshot. A worker that is already    *)
(* declared dead may call too; the fence would refuse it, so it is left out.   *)
ClaimRead(w) ==
    /\ call[w].pc = IF Broken = "claim_xid_before_read" THEN "xid" ELSE "idle"
    /\ life[w] = "alive" /\ Cursor.id < MaxClaim
    /\ call[w].pc = "xid" \/ LaneFree \/ Broken = "claim_repeatable_read"
    /\ \E probes \in Probing, n \in 1 .. Limit : LET row == Plan(w, probes, n) IN
       /\ Says(row, Cursor)
       /\ call' = [call EXCEPT ![w].pc = "read", ![w].row = row]
       /\ IF Broken = "cursor_outside_claim"
          THEN db' = [db EXCEPT !.claims = @ \cup {[row EXCEPT !.seqs = {}, !.worker = Nobody]}]
          ELSE db' = db
    /\ UNCHANGED <<prod, held, fin, life, res, rot, look>>

(* The life row FOR SHARE: a dead worker is refused; declare_dead waits for us. *)
(* The row lock assigns the xid, after the read.                               *)
ClaimFence(w) ==
    /\ call[w].pc = "read"
    /\ Broken = "claim_repeatable_read" => LaneFree
    /\ IF life[w] # "alive" /\ Broken # "no_fence_on_claims"
       THEN /\ call' = [call EXCEPT ![w] = NoCall]
            /\ db' = [db EXCEPT !.done = Completed(call[w].xid)]
       ELSE LET read == call[w].row
                own  == IF call[w].xid = 0 THEN db.xid ELSE call[w].xid
                late == Broken = "xmin_after_probe" /\ read.oh # 0 /\ Dead(Cursor)
                row  == [read EXCEPT !.seg = db.cur, !.old = IF late THEN {} ELSE @,
                                     !.oh = IF read.old = {} THEN 0 ELSE IF @ # 0 THEN @ ELSE own] IN
            /\ call' = [call EXCEPT ![w].pc = "fenced", ![w].xid = own, ![w].row = row]
            /\ db' = IF call[w].xid = 0 THEN [db EXCEPT !.xid = @ + 1] ELSE db
    /\ UNCHANGED <<prod, held, fin, life, res, rot, look>>

(* Claim row and cursor are one row: they commit or vanish together. *)
ClaimCommit(w) ==
    /\ call[w].pc = "fenced"
    /\ LET row == [call[w].row EXCEPT !.id = Cursor.id + 1] IN
       /\ db' = [db EXCEPT !.claims = @ \cup {row}, !.done = Completed(call[w].xid)]
       /\ call' = [call EXCEPT ![w] = IF row.seqs = {} \/ ~call[w].listens \/ "finish" \notin With THEN NoCall
                                      ELSE [NoCall EXCEPT !.pc = "answer", !.row = row.seqs]]
    /\ UNCHANGED <<prod, held, fin, life, res, rot, look>>

ClaimAbort(w) ==
    /\ "lose" \in With \/ Broken = "cursor_outside_claim"
    /\ call[w].pc \in {"read", "fenced"}
    /\ db' = [db EXCEPT !.done = Completed(call[w].xid)]
    /\ call' = [call EXCEPT ![w] = NoCall]
    /\ UNCHANGED <<prod, held, fin, life, res, rot, look>>

Answer(w) ==
    /\ call[w].pc = "answer"
    /\ held' = [held EXCEPT ![w] = @ \cup call[w].row]
    /\ call' = [call EXCEPT ![w] = NoCall]
    /\ UNCHANGED <<db, prod, fin, life, res, rot, look>>

(* The client's connection breaks. The server may be anywhere in the call, and goes on. *)
GiveUp(w) ==
    /\ "lose" \in With
    /\ call[w].pc \in {"read", "fenced", "answer"} /\ call[w].listens
    /\ call' = [call EXCEPT ![w] = IF call[w].pc = "answer" THEN NoCall ELSE [@ EXCEPT !.listens = FALSE]]
    /\ UNCHANGED <<db, prod, held, fin, life, res, rot, look>>

(* Cancel a waiting job: under the lane lock, a finished claim of nobody. Above *)
(* hi its number goes to `ahead`; below it was a hole, and is one no more.     *)
TakeAhead(s) ==
    /\ "cancel" \in With /\ LaneFree /\ Cursor.id < MaxClaim
    /\ s \in Visible /\ Waiting(s)
    /\ LET k == Cursor IN
       db' = [db EXCEPT
           !.claims = @ \cup {[k EXCEPT !.id = k.id + 1, !.seg = db.cur, !.worker = Nobody, !.seqs = {s},
                                        !.young = @ \ {s}, !.old = @ \ {s},
                                        !.ahead = IF s > k.hi THEN @ \cup {s} ELSE @]},
           !.outs = @ \cup {[claim |-> k.id + 1, seg |-> db.cur, flush |-> s, kind |-> "cancelled", seqs |-> {s}]},
           !.final = @ \cup {db.job[s]}]
    /\ UNCHANGED <<prod, call, held, fin, life, res, rot, look>>
===============================================================================
