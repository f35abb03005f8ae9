------------------------------- MODULE Rotation -------------------------------
(* One rotator at a time: switch the current segment; then, for one victim,    *)
(* seal it against producers, touch the lane, judge the claims, sweep, move    *)
(* what lives, reclaim. Each step is a transaction, and between two of them    *)
(* everybody else goes on.                                                     *)
EXTENDS LogState

Holds(seg) == \/ \E r \in db.ready : r.seg = seg
              \/ \E c \in db.claims : c.seg = seg
              \/ \E o \in db.outs : o.seg = seg

NoRot(turn) == [pc |-> "idle", v |-> 0, carry |-> {}, after |-> 0, seen |-> FALSE, turn |-> turn]

Ring(n) == ((db.cur - 1 + n) % Segments) + 1        \* the n-th segment after the current one
Empty == {n \in 1 .. (Segments - 1) : ~Holds(Ring(n))}

(* The next empty segment. setval on a sequence: everybody sees it at once,    *)
(* whatever his snapshot.                                                      *)
Switch ==
    /\ "rotate" \in With /\ rot.pc = "idle" /\ rot.turn < MaxTurn /\ Empty # {}
    /\ db' = [db EXCEPT !.cur = Ring(Min(Empty))]
    /\ rot' = [rot EXCEPT !.turn = @ + 1]
    /\ UNCHANGED <<prod, call, held, fin, life, res, look>>

Pick(v) ==
    /\ "rotate" \in With /\ rot.pc = "idle" /\ v # db.cur /\ Holds(v)
    /\ rot' = [rot EXCEPT !.pc = "seal", !.v = v]
    /\ UNCHANGED <<db, prod, call, held, fin, life, res, look>>

(* pg_locks shows nobody: nobody can insert into the victim any more, since    *)
(* whoever locks it from now on sees another current.                          *)
Seal ==
    /\ rot.pc = "seal" /\ (rot.v \notin Offering \/ Broken = "seal_skipped")
    /\ rot' = [rot EXCEPT !.pc = "touch"]
    /\ UNCHANGED <<db, prod, call, held, fin, life, res, look>>

(* Under the lane lock. A claim reads current under the same lock, so from here *)
(* on no claim row is written into the victim.                                 *)
Touch ==
    /\ rot.pc = "touch" /\ LaneFree
    /\ rot' = [rot EXCEPT !.pc = "judge"]
    /\ LET k == Cursor IN
       IF k.seg = rot.v /\ Broken # "cursor_not_touched"
       THEN db' = [db EXCEPT !.claims = @ \cup {[k EXCEPT !.id = k.id + 1, !.seg = db.cur, !.worker = Nobody,
                                                          !.seqs = {}]}]
       ELSE db' = db
    /\ UNCHANGED <<prod, call, held, fin, life, res, look>>

(* Claims that are finished now are finished for ever. The others are carried,  *)
(* also if they finish before the reclaim: their jobs may lie elsewhere.       *)
Judge ==
    /\ rot.pc = "judge"
    /\ rot' = [rot EXCEPT !.pc = "sweep",
                          !.carry = {c.id : c \in {c \in db.claims : c.seg = rot.v /\ Unfinished(c) # {}}}]
    /\ UNCHANGED <<db, prod, call, held, fin, life, res, look>>

(* Rows of finished jobs in other segments, whose evidence goes with the victim. *)
Strays == {r \in db.ready : r.seg # rot.v /\ \E c \in Covering(r.seq) : c.seg = rot.v /\ c.id \notin rot.carry}

Sweep ==
    /\ rot.pc = "sweep" /\ Strays # {} /\ Broken # "evidence_first"
    /\ db' = [db EXCEPT !.ready = {r \in @ : r.seq # Min({q.seq : q \in Strays})}]
    /\ UNCHANGED <<prod, call, held, fin, life, res, rot, look>>

SweepEnd ==
    /\ rot.pc = "sweep" /\ (Strays = {} \/ Broken = "evidence_first")
    /\ rot' = [rot EXCEPT !.pc = "move"]
    /\ UNCHANGED <<db, prod, call, held, fin, life, res, look>>

(* One job at a time, in the order of the lane. The cursor is read first, the  *)
(* claims in the statement that moves: what the cursor had passed by then, and *)
(* no claim covers now, was never claimed. The other way round a claim may     *)
(* come between.                                                               *)
Left == {r.seq : r \in {r \in db.ready : r.seg = rot.v /\ r.seq > rot.after /\ ~Finished(r.seq)}}

MoveRead ==
    /\ rot.pc = "move" /\ Left # {}
    /\ LET s == Min(Left) IN
       rot' = [rot EXCEPT !.pc = "moving", !.after = s,
                          !.seen = IF Broken = "claims_before_cursor" THEN Covering(s) # {} ELSE Waiting(s)]
    /\ UNCHANGED <<db, prod, call, held, fin, life, res, look>>

To(s, seg) == [db EXCEPT !.ready = {IF r.seq = s THEN [r EXCEPT !.seg = seg] ELSE r : r \in @}]

(* A claimed job goes to its claim, a waiting one to the current segment. What *)
(* is neither is offered again, with an alarm.                                 *)
MoveCommit ==
    /\ rot.pc = "moving"
    /\ LET s == rot.after
           waits   == IF Broken = "claims_before_cursor" THEN Waiting(s) ELSE rot.seen
           covered == IF Broken = "claims_before_cursor" THEN rot.seen ELSE Covering(s) # {} IN
       IF covered /\ Covering(s) # {} THEN db' = To(s, (CHOOSE c \in Covering(s) : TRUE).seg)
       ELSE IF waits THEN db' = To(s, db.cur)
       ELSE /\ CanDraw
            /\ db' = [Drawn(db, db.job[s]) EXCEPT !.ready = {r \in @ : r.seq # s} \cup {NewRow(db.cur)},
                                                  !.offered = @ \cup {db.last + 1}]
    /\ rot' = [rot EXCEPT !.pc = "move", !.seen = FALSE]
    /\ UNCHANGED <<prod, call, held, fin, life, res, look>>

MoveEnd ==
    /\ rot.pc = "move" /\ Left = {}
    /\ rot' = [rot EXCEPT !.pc = "moved"]
    /\ UNCHANGED <<db, prod, call, held, fin, life, res, look>>

(* ACCESS EXCLUSIVE on the victim's partitions, NOWAIT; under it the cursor is  *)
(* looked for once more, the carried claims move with their outcomes and their *)
(* open jobs, and the rest is truncated.                                       *)
Ready == rot.pc = CASE Broken = "reclaim_by_generation" -> "touch"
                    [] Broken = "moves_not_checked"     -> "sweep"
                    [] OTHER                            -> "moved"

Carried(c) == /\ c.seg = rot.v /\ c.id \in rot.carry
              /\ Broken = "carry_only_unfinished" => Unfinished(c) # {}

Reclaim ==
    /\ Ready /\ rot.v \notin Offering /\ ~Reading
    /\ Cursor.seg # rot.v \/ Broken \in {"cursor_not_touched", "reclaim_by_generation"}
    /\ LET kept == {c \in db.claims : Carried(c)}
           ids  == {c.id : c \in kept}
           open == UNION {Unfinished(c) : c \in kept}
           Carry(x) == IF x.seg = rot.v THEN [x EXCEPT !.seg = db.cur] ELSE x IN
       db' = [db EXCEPT
           !.claims = {Carry(c) : c \in {c \in @ : c.seg # rot.v \/ c \in kept}},
           !.outs = {Carry(o) : o \in {o \in @ : o.seg # rot.v
                                          \/ (o.claim \in ids /\ Broken # "carry_without_outcomes")}},
           !.ready = {Carry(r) : r \in {r \in @ : r.seg # rot.v \/ r.seq \in open}}]
    /\ rot' = NoRot(rot.turn)
    /\ UNCHANGED <<prod, call, held, fin, life, res, look>>

(* The victim is in use: let go of it, and try another one or later. *)
LetGo ==
    /\ "letgo" \in With /\ rot.pc \in {"seal", "touch", "judge", "sweep", "move", "moved"}
    /\ rot' = NoRot(rot.turn)
    /\ UNCHANGED <<db, prod, call, held, fin, life, res, look>>
===============================================================================
