---------------------------------- MODULE Wait --------------------------------
(* A job that waits for signals. It asks, and is suspended by a flush; senders *)
(* leave their transactions open as long as they like; looks, a timeout and a  *)
(* cancel come at any moment. A transaction shows what it wrote when it        *)
(* commits, and reads what was committed when it read.                         *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Senders,        \* each sends one signal, or rolls back
    MaxRuns,        \* bound on the runs of the job
    Timeout,        \* TRUE: the wait may time out
    Broken          \* "none", or the name of the one rule that is broken

VARIABLES
    state,          \* where the job is: ready, running, flushing, suspended, held, ended
    runs,           \* how often it was begun
    asked,          \* TRUE: the present run has found no signal, and waits
    sent,           \* by sender: idle, waking, quiet, open, there, taken
    notes,          \* the notes that are committed
    mine,           \* TRUE: the open flush has seen a signal
    late,           \* TRUE: the time of the wait is over
    step            \* what the wait has become: none, or the sender, or "timeout"

vars == <<state, runs, asked, sent, notes, mine, late, step>>

There == {s \in Senders : sent[s] = "there"}

Init ==
    /\ state = "ready" /\ runs = 0 /\ asked = FALSE
    /\ sent = [s \in Senders |-> "idle"]
    /\ notes = 0 /\ mine = FALSE /\ late = FALSE /\ step = "none"

(* -------------------------------- the senders ------------------------------ *)
Send(s) ==
    /\ sent[s] = "idle" /\ state # "ended"
    /\ sent' = [sent EXCEPT ![s] = "open"]
    /\ UNCHANGED <<state, runs, asked, notes, mine, late, step>>

(* The signal and its note show together.                                      *)
SendCommit(s) ==
    /\ sent[s] = "open"
    /\ sent' = [sent EXCEPT ![s] = "there"]
    /\ notes' = IF Broken = "sender_leaves_no_note" THEN notes ELSE 1
    /\ UNCHANGED <<state, runs, asked, mine, late, step>>

(* A sender in a transaction of the store's own that has seen the job wait     *)
(* wakes it there, without a note. Meanwhile the job may have gone on, and may *)
(* wait again before the sender commits: then it leaves its note as others do. *)
SendLook(s) ==
    /\ sent[s] = "idle" /\ state = "suspended"
    /\ sent' = [sent EXCEPT ![s] = "waking"]
    /\ UNCHANGED <<state, runs, asked, notes, mine, late, step>>

Answers(s) == \* s is the signal that ends the wait of a job whose row is held
    IF step = "none" THEN step' = s /\ sent' = [sent EXCEPT ![s] = "taken"]
    ELSE UNCHANGED <<step, sent>>

SendWaking(s) ==
    /\ sent[s] = "waking"
    /\ IF state = "suspended"
       THEN /\ state' = "ready"
            /\ Answers(s) \/ (sent' = [sent EXCEPT ![s] = "there"] /\ UNCHANGED step)
       ELSE /\ sent' = [sent EXCEPT ![s] = IF Broken = "sender_trusts_its_look" THEN "quiet" ELSE "open"]
            /\ UNCHANGED <<state, step>>
    /\ UNCHANGED <<runs, asked, notes, mine, late>>

(* Mostly it sees and holds the job at once, and ends its wait.                *)
SendAnswering(s) ==
    /\ sent[s] = "idle" /\ There = {}
    /\ \/ state = "suspended" /\ Answers(s) /\ state' = "ready"
       \/ /\ Broken = "sender_answers_a_run" /\ state = "running" /\ asked
          /\ step' = s /\ sent' = [sent EXCEPT ![s] = "taken"] /\ UNCHANGED state
    /\ UNCHANGED <<runs, asked, notes, mine, late>>

SendQuietly(s) ==
    /\ sent[s] = "quiet"
    /\ sent' = [sent EXCEPT ![s] = "there"]
    /\ UNCHANGED <<state, runs, asked, notes, mine, late, step>>

SendRollback(s) ==
    /\ sent[s] = "open"
    /\ sent' = [sent EXCEPT ![s] = "idle"]
    /\ UNCHANGED <<state, runs, asked, notes, mine, late, step>>

(* ---------------------------------- the job -------------------------------- *)
Begin ==
    /\ state = "ready" /\ runs < MaxRuns
    /\ state' = "running" /\ runs' = runs + 1 /\ asked' = FALSE
    /\ UNCHANGED <<sent, notes, mine, late, step>>

(* One fenced call: the step that is there, a signal, a timeout, or waiting.   *)
Ask ==
    /\ state = "running" /\ ~asked
    /\ IF step # "none" /\ Broken # "step_decided_again"
       THEN /\ state' = "ended" /\ UNCHANGED <<asked, sent, step>>
       ELSE IF There # {}
       THEN \E s \in There :
            /\ step' = s /\ asked' = FALSE
            /\ sent' = [sent EXCEPT ![s] = "taken"]
            /\ state' \in {"ended", "ready"}     \* it ends, or is tried again later
       ELSE IF late
       THEN /\ step' = "timeout" /\ state' \in {"ended", "ready"} /\ UNCHANGED <<asked, sent>>
       ELSE /\ asked' = TRUE /\ UNCHANGED <<state, sent, step>>
    /\ UNCHANGED <<runs, notes, mine, late>>

(* The flush looks for a signal that is committed, and commits later.          *)
FlushOpen ==
    /\ state = "running" /\ asked
    /\ state' = "flushing" /\ mine' = (There # {})
    /\ UNCHANGED <<runs, asked, sent, notes, late, step>>

FlushCommit ==
    /\ state = "flushing"
    /\ state' = IF mine THEN "ready" ELSE "suspended"
    /\ notes' = IF mine \/ Broken = "flush_leaves_no_note" THEN notes ELSE 1
    /\ mine' = FALSE
    /\ UNCHANGED <<runs, asked, sent, late, step>>

Die ==
    /\ state \in {"running", "flushing"}
    /\ state' = "ready" /\ mine' = FALSE
    /\ UNCHANGED <<runs, asked, sent, notes, late, step>>

(* --------------------------------- the looks ------------------------------- *)
(* A look that finds somebody at the signal wakes the job, which asks for it.  *)
Look ==
    /\ notes = 1
    /\ notes' = IF state = "held" /\ There # {} /\ Broken # "look_forgets_what_is_held" THEN 1 ELSE 0
    /\ IF state = "suspended" /\ There # {}
       THEN /\ state' = "ready"
            /\ \/ \E s \in There : Answers(s)
               \/ UNCHANGED <<step, sent>>
       ELSE UNCHANGED <<state, step, sent>>
    /\ UNCHANGED <<runs, asked, mine, late>>

(* ------------------------- timeout, cancel, and others --------------------- *)
Pass ==
    /\ Timeout /\ ~late /\ late' = TRUE
    /\ UNCHANGED <<state, runs, asked, sent, notes, mine, step>>

Promote ==
    /\ state = "suspended" /\ late
    /\ state' = "ready"
    /\ UNCHANGED <<runs, asked, sent, notes, mine, late, step>>

(* An operator lets it go on, or another of its waits is over.                 *)
Steer ==
    /\ state = "suspended"
    /\ state' = "ready"
    /\ UNCHANGED <<runs, asked, sent, notes, mine, late, step>>

(* Somebody holds the job's row: a cancel that may yet be rolled back.         *)
Hold ==
    /\ state = "suspended" /\ state' = "held"
    /\ UNCHANGED <<runs, asked, sent, notes, mine, late, step>>

LetGo ==
    /\ state = "held" /\ state' \in {"suspended", "ended"}
    /\ UNCHANGED <<runs, asked, sent, notes, mine, late, step>>

Next ==
    \/ \E s \in Senders : Send(s) \/ SendCommit(s) \/ SendLook(s) \/ SendWaking(s)
                         \/ SendAnswering(s)
                         \/ SendQuietly(s) \/ SendRollback(s)
    \/ Begin \/ Ask \/ FlushOpen \/ FlushCommit \/ Die \/ Look \/ Pass \/ Promote \/ Steer
    \/ Hold \/ LetGo

Spec == Init /\ [][Next]_vars

(* ------------------------------ the invariants ----------------------------- *)
(* A job that waits although its signal is there, or its wait is over, has a   *)
(* note: it will be woken.                                                     *)
NoLostWakeUp ==
    state \in {"suspended", "held"} /\ (There # {} \/ step # "none") => notes = 1

(* The wait has taken one signal at most, and none that somebody else has.     *)
TakenOnce == Cardinality({s \in Senders : sent[s] = "taken"}) <= 1

(* What was decided stands: a wait that has timed out has taken nothing.       *)
TimedOutStays == step = "timeout" => \A s \in Senders : sent[s] # "taken"

Symmetry == Permutations(Senders)
===============================================================================
