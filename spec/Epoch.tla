--------------------------------- MODULE Epoch --------------------------------
(* A server that forgets: a standby that lags is promoted, a backup is         *)
(* restored, a crash undoes what was not flushed. Its tables and sequences go  *)
(* back to an earlier moment; what callers and workers know does not. The mark *)
(* is an unlogged table, which every recovery empties.                         *)
(*                                                                             *)
(* There is one lane, and each claim takes one job. A position stands for the  *)
(* id of its job, too. Jobs have names of their own here, which no program     *)
(* sees: by them it shows whether a position means another job.                *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Workers,
    MaxJob,         \* bound on the jobs enqueued
    MaxClaim,       \* bound on the claims
    MaxLoss,        \* bound on the losses
    Broken          \* "none", or the name of the one rule that is broken

VARIABLES
    db,             \* the tables, the sequences and the mark
    kept,           \* the state that a loss leads back to
    held,           \* what each worker believes it holds
    born,           \* workers that have registered: an id is used once
    told,           \* ids that callers were told of, in whatever history
    ran,            \* jobs whose handler has run
    top,            \* the highest position and claim ever given out
    losses

vars == <<db, kept, held, born, told, ran, top, losses>>

Max(a, b) == IF a > b THEN a ELSE b

Init ==
    /\ db = [last |-> 0, no |-> 0, jobs |-> {}, claims |-> {}, ended |-> {}, epoch |-> 1, mark |-> 1,
             how |-> "", life |-> [w \in Workers |-> 0]]
    /\ kept = db
    /\ held = [w \in Workers |-> {}]
    /\ born = {} /\ told = {} /\ ran = {}
    /\ top = [pos |-> 0, no |-> 0]
    /\ losses = 0

(* ------------------------------- the history ------------------------------- *)
Whole == db.mark = db.epoch
Open == {c \in db.claims : c.pos \notin db.ended /\ c.open}
Waiting == {j \in db.jobs : j.pos \notin db.ended /\ \A c \in Open : c.pos # j.pos}
Alive(w) == Whole /\ db.life[w] = db.epoch

Register(w) ==
    /\ w \notin born /\ Whole
    /\ born' = born \cup {w}
    /\ db' = [db EXCEPT !.life[w] = db.epoch]
    /\ UNCHANGED <<kept, held, told, ran, top, losses>>

(* Before the store is adopted a job waits outside of the lane, which is left out here. *)
Enqueue ==
    /\ Whole \/ Broken = "draw_before_adoption"
    /\ Cardinality(told) < MaxJob
    /\ LET j == [pos |-> db.last + 1, job |-> Cardinality(told) + 1] IN
       /\ db' = [db EXCEPT !.last = j.pos, !.jobs = @ \cup {j}]
       /\ told' = told \cup {j}
       /\ top' = [top EXCEPT !.pos = Max(@, j.pos)]
    /\ UNCHANGED <<kept, held, born, ran, losses>>

Claim(w) ==
    /\ Alive(w) /\ top.no < MaxClaim
    /\ \E j \in Waiting : LET no == db.no + 1 IN
       /\ db' = [db EXCEPT !.no = no, !.claims = @ \cup {[no |-> no, worker |-> w, pos |-> j.pos, open |-> TRUE]}]
       /\ held' = [held EXCEPT ![w] = @ \cup {[no |-> no, pos |-> j.pos, job |-> j.job]}]
       /\ top' = [top EXCEPT !.no = Max(@, no)]
    /\ UNCHANGED <<kept, born, told, ran, losses>>

(* The handler runs, and its outcome is sent, however late: it ends the job, or is refused. *)
Run(w) ==
    /\ \E h \in held[w] : h.job \notin ran /\ ran' = ran \cup {h.job}
    /\ UNCHANGED <<db, kept, held, born, told, top, losses>>

Finish(w) ==
    /\ Whole
    /\ \E h \in held[w] :
       /\ h.job \in ran
       /\ held' = [held EXCEPT ![w] = @ \ {h}]
       /\ db' = IF Alive(w) /\ \E c \in Open : c.no = h.no /\ c.worker = w /\ c.pos = h.pos
                THEN [db EXCEPT !.ended = @ \cup {h.pos}] ELSE db
    /\ UNCHANGED <<kept, born, told, ran, top, losses>>

(* -------------------------------- the losses ------------------------------- *)
(* Flushed, or replayed by the standby that will be promoted. *)
Keep ==
    /\ kept # db /\ losses < MaxLoss
    /\ kept' = db
    /\ UNCHANGED <<db, held, born, told, ran, top, losses>>

Lose ==
    /\ losses < MaxLoss
    /\ \E how \in {"crash", "promotion"} : db' = [kept EXCEPT !.mark = 0, !.how = how]
    /\ losses' = losses + 1
    /\ UNCHANGED <<kept, held, born, told, ran, top>>

(* Numbers jump beyond all that were ever given out. After a promotion workers *)
(* are dead and what they held is offered again; after a crash they live on.   *)
Adopt ==
    /\ ~Whole
    /\ LET jumps == Broken # "numbers_go_on"
           dead == db.how = "promotion"
       IN db' = [db EXCEPT !.epoch = @ + 1, !.mark = db.epoch + 1,
                           !.last = IF jumps THEN Max(@, top.pos) ELSE @,
                           !.no = IF jumps THEN Max(@, top.no) ELSE @,
                           !.life = [w \in Workers |-> IF dead \/ @[w] # db.epoch THEN 0 ELSE db.epoch + 1],
                           !.claims = {[c EXCEPT !.open = @ /\ ~dead] : c \in @}]
    /\ UNCHANGED <<kept, held, born, told, ran, top, losses>>

Next ==
    \/ Enqueue \/ Keep \/ Lose \/ Adopt
    \/ \E w \in Workers : Register(w) \/ Claim(w) \/ Run(w) \/ Finish(w)

Spec == Init /\ [][Next]_vars

(* ------------------------------ the invariants ----------------------------- *)
EndedHasRun == \A j \in db.jobs : j.pos \in db.ended => j.job \in ran
OneMeaning == \A a, b \in told : a.pos = b.pos => a.job = b.job

Symmetry == Permutations(Workers)
===============================================================================
