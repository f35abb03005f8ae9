-------------------------------- MODULE Finish --------------------------------
(* Outcomes. A worker sends a flush until it has an answer, so one flush may   *)
(* reach the server twice, the second time after a rotation.                   *)
EXTENDS LogState

Again == {"retry", "released"}      \* outcomes that offer the job anew

(* The flush number: here the lowest seq, which names a flush of a claim as    *)
(* well as a counter would, with fewer states.                                 *)
Number(f) == Min(f.seqs)

(* What a worker may flush: an outcome of what it holds; or, while it waits for *)
(* no claim's answer, the release of what its claims hold and it does not.     *)
SendOf(w) ==
    UNION {LET mine == held[w] \cap c.seqs
               lost == IF c \in Mine(w) THEN Unfinished(c) \ held[w] ELSE {} IN
           {<<c.id, S, "done">> : S \in (SUBSET mine) \ {{}}}
           \cup (IF "retry" \in With THEN {<<c.id, {s}, "retry">> : s \in mine} ELSE {})
           \cup (IF "lose" \in With /\ lost # {} /\ (call[w].pc = "idle" \/ ~call[w].listens
                                                    \/ Broken = "release_while_calling")
                 THEN {<<c.id, {Min(lost)}, "released">>} ELSE {})
           : c \in {c \in db.claims : c.worker = w}}

Send(w) ==
    /\ "finish" \in With /\ fin[w].pc = "idle"
    /\ \E m \in SendOf(w) :
          fin' = [fin EXCEPT ![w] = [NoFlush EXCEPT !.pc = "sent", !.claim = m[1], !.seqs = m[2], !.kind = m[3]]]
    /\ UNCHANGED <<db, prod, call, held, life, res, rot, look>>

(* At REPEATABLE READ the snapshot may be older than a reclaim. TRUNCATE does  *)
(* not care: the claim is gone from the old segment and not yet in the new one. *)
FinishSnapshot(w) ==
    /\ Broken = "finish_repeatable_read" /\ fin[w].pc = "sent"
    /\ \E c \in db.claims : c.id = fin[w].claim /\ fin' = [fin EXCEPT ![w].pc = "snap", ![w].seg = c.seg]
    /\ UNCHANGED <<db, prod, call, held, life, res, rot, look>>

Finds(w, c) == c.id = fin[w].claim /\ (Broken = "finish_repeatable_read" => c.seg = fin[w].seg)

Recorded(w, c) == \E o \in db.outs : o.claim = c.id /\ o.flush = Number(fin[w]) /\ o.kind = fin[w].kind
                                     /\ o.seg = c.seg

Ack(w) == /\ fin' = [fin EXCEPT ![w] = NoFlush]
          /\ held' = [held EXCEPT ![w] = @ \ fin[w].seqs]

(* Fence, then find the claim with its segment. A flush that is recorded, or    *)
(* whose claim is gone, changes nothing and is answered well.                  *)
FinishOpen(w) ==
    /\ fin[w].pc = IF Broken = "finish_repeatable_read" THEN "snap" ELSE "sent"
    /\ LET found == {c \in db.claims : Finds(w, c)} IN
       IF life[w] # "alive" /\ Broken # "no_fence_on_outcomes"
       THEN /\ fin' = [fin EXCEPT ![w] = NoFlush]
            /\ held' = [held EXCEPT ![w] = {}]
            /\ db' = db
       ELSE IF found = {} \/ (Broken # "flush_without_number" /\ \E c \in found : Recorded(w, c))
       THEN /\ Ack(w)
            /\ db' = IF fin[w].kind = "done" /\ \E s \in fin[w].seqs : db.job[s] \notin db.final
                     THEN [db EXCEPT !.bad = TRUE] ELSE db
       ELSE \E c \in found :
            /\ held' = held
            /\ IF fin[w].kind \in Again
               THEN /\ CanDraw
                    /\ fin' = [fin EXCEPT ![w].pc = "open", ![w].seg = c.seg, ![w].rows = {NewRow(db.cur)},
                                          ![w].xid = db.xid]
                    /\ db' = [Drawn(db, db.job[Number(fin[w])]) EXCEPT !.xid = @ + 1]
               ELSE /\ fin' = [fin EXCEPT ![w].pc = "open", ![w].seg = c.seg]
                    /\ db' = db
    /\ UNCHANGED <<prod, call, life, res, rot, look>>

Written(w) ==
    LET f == fin[w] IN
    [Offer(db, f.rows) EXCEPT
        !.outs = @ \cup {[claim |-> f.claim, flush |-> Number(f), kind |-> f.kind, seqs |-> f.seqs,
                          seg |-> IF Broken = "outcome_in_current" THEN db.cur ELSE f.seg]},
        !.final = IF f.kind = "done" THEN @ \cup {db.job[s] : s \in f.seqs} ELSE @,
        !.done = Completed(f.xid)]

FinishCommit(w) ==
    /\ fin[w].pc = "open"
    /\ db' = Written(w)
    /\ Ack(w)
    /\ UNCHANGED <<prod, call, life, res, rot, look>>

(* Committed, and the answer lost: the worker will send it again. *)
FinishUnanswered(w) ==
    /\ "resend" \in With /\ fin[w].pc = "open"
    /\ db' = Written(w)
    /\ fin' = [fin EXCEPT ![w].pc = "sent", ![w].xid = 0, ![w].seg = 0, ![w].rows = {}]
    /\ UNCHANGED <<prod, call, held, life, res, rot, look>>

FinishAbort(w) ==
    /\ "lose" \in With /\ fin[w].pc = "open"
    /\ db' = [db EXCEPT !.done = Completed(fin[w].xid)]
    /\ fin' = [fin EXCEPT ![w].pc = "sent", ![w].xid = 0, ![w].seg = 0, ![w].rows = {}]
    /\ UNCHANGED <<prod, call, held, life, res, rot, look>>
===============================================================================
