-- What stood in a database at schema version 5 beside the tables of the first five migrations: every function by its signature
-- (only schema_version needs a body: the others are replaced before anybody calls them), the columns of the views, and jobs as
-- that version wrote them. Callers: test_migrate.

CREATE FUNCTION windlass.admit(p_limit int) RETURNS int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.admit_gate(p_gate text, p_limit int, OUT n int, OUT nexts text[], OUT outs windlass.held[], OUT
    rings windlass.held[]) RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.admit_gates(p_gates text[], p_limit int, p_wait int DEFAULT 0) RETURNS int LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.admit_ring(p_queue text, p_priority smallint, p_limit int) RETURNS int LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.adopt(p_force boolean DEFAULT true) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.advance(p_parent bigint, p_wait int DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.after(p_seconds float8) RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.again(r windlass.ready, p_delay float8, p_attempt int, p_deaths int, p_retrying boolean) RETURNS
    void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.allow(p_role text, p_kind text) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.assign(p_term bigint, p_slots json) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.await_jobs() RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.beat(p_worker bigint) RETURNS bigint[] LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.breaker_length(p_pause float8, p_openings int) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.breaker_state(b windlass.budget, p_now float8) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.bucket_at(b windlass.budget, k windlass.bucket, p_now float8) RETURNS windlass.bucket LANGUAGE
    plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.bucket_give(p_budget text, p_key text, p_n int, p_now float8 DEFAULT NULL, p_age float8 DEFAULT 0)
    RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.bucket_key(p_value json) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.bucket_lock(p_budget text, p_key text) RETURNS windlass.bucket LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.bucket_of(b windlass.budget, p_key text) RETURNS windlass.bucket LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.bucket_take(p_budget text, p_key text, p_n int, p_all boolean, p_each int DEFAULT 1, p_now float8
    DEFAULT NULL) RETURNS int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.bucket_tokens(p_budget text, p_key text, p_each int DEFAULT 1, p_now float8 DEFAULT NULL) RETURNS
    int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.bucket_try(p_budget text, p_key text, p_wait int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.bucket_wait(p_budget text, p_key text, p_n int, p_now float8 DEFAULT NULL) RETURNS float8 LANGUAGE
    plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.budget_add(b windlass.budget) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.budget_change(p_new windlass.budget, p_now float8 DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.budget_lock(p_budget text) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.bury(p_worker bigint, p_beat bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.bury_deferred(d windlass.deferred, p_reason text) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.bury_job(r windlass.ready, p_deaths int, p_reason text) RETURNS void LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.cancel(job bigint) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.cancel_job(p_job bigint) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.cancel_parent(p_parent bigint) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.change_pressure(p_queue text, p_was text, p_is text) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.check_after(p_after bigint[], p_known boolean) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.check_budget(p_name text, p_changes jsonb) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.check_name(p_what text, p_name text) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.check_options(p_options text) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.check_payload(p_payload text) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.check_term(p_term bigint) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.checkpoint(p_worker bigint, p_job bigint, p_lane int, p_claim bigint, p_seq bigint, p_data text,
    p_done bigint, p_total bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE PROCEDURE windlass.claim(IN p_lane int, IN p_worker bigint, IN p_limit int, IN p_wait int, INOUT status text DEFAULT
    NULL, INOUT claim bigint DEFAULT NULL, INOUT seqs bigint[] DEFAULT NULL, INOUT ids bigint[] DEFAULT NULL, INOUT tasks
    text[] DEFAULT NULL, INOUT payloads text[] DEFAULT NULL, INOUT options text[] DEFAULT NULL, INOUT attempts smallint[]
    DEFAULT NULL, INOUT deaths smallint[] DEFAULT NULL, INOUT enqueued float8[] DEFAULT NULL, IN p_needs json DEFAULT NULL,
    IN p_limited boolean DEFAULT false) LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.claim_aside(p_lane int, p_claim bigint, p_seqs bigint[], p_jobs bigint[], p_gates text[], p_needs
    int[]) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.claim_count(p_lane int, p_claim bigint, p_n int, p_wait int) RETURNS boolean LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.claim_gated(p_lane int, p_claim bigint, INOUT seqs bigint[], INOUT ids bigint[], INOUT tasks
    text[], INOUT payloads text[], INOUT options text[], INOUT attempts smallint[], INOUT deaths smallint[], INOUT enqueued
    float8[]) RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.claim_needs(p_lane int, p_claim bigint, p_needs json, INOUT seqs bigint[], INOUT ids bigint[],
    INOUT tasks text[], INOUT payloads text[], INOUT options text[], INOUT attempts smallint[], INOUT deaths smallint[],
    INOUT enqueued float8[], p_wait int DEFAULT 100, OUT busy boolean) RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.claim_passed(p_jobs bigint[]) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.claim_plenty(p_needs json, p_tasks text[], p_wait int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.claim_room(p_lane int, p_limit int, OUT room int, OUT status text) RETURNS record LANGUAGE plpgsql
    AS 'BEGIN END';
CREATE FUNCTION windlass.claim_take(p_lane int, p_worker bigint, p_limit int, p_limited boolean DEFAULT false, OUT status
    text, OUT claim bigint, OUT seqs bigint[], OUT ids bigint[], OUT tasks text[], OUT payloads text[], OUT options text[],
    OUT attempts smallint[], OUT deaths smallint[], OUT enqueued float8[], OUT gated boolean) RETURNS record LANGUAGE
    plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.claim_wants(p_needs json, p_tasks text[], p_payloads text[]) RETURNS windlass.want[] LANGUAGE
    plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.claim_without(p_places int[], INOUT seqs bigint[], INOUT ids bigint[], INOUT tasks text[], INOUT
    payloads text[], INOUT options text[], INOUT attempts smallint[], INOUT deaths smallint[], INOUT enqueued float8[])
    RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.cools(q windlass.queue) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.count_death(p_key text, p_kind text) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.count_running(p_task text) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.cursor_of(p_lane int) RETURNS windlass.claim LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.declare_budget(p_name text, p_rate float8, p_burst float8, p_key text DEFAULT NULL, p_breaker
    bigint DEFAULT 0, p_breaker_pause float8 DEFAULT 30) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.declare_lane(p_queue text, p_priority smallint) RETURNS int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.delete(job bigint) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.depth() RETURNS TABLE(queue text, ready bigint, running bigint, scheduled bigint, retrying bigint,
    dead bigint, oldest timestamptz) LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.drain_budget(p_budget text, p_pause float8, p_key text DEFAULT NULL, p_now float8 DEFAULT NULL)
    RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.drop_budget(p_name text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.drop_parent(p_parent bigint) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.drop_parts(p_limit int) RETURNS int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.drop_passes(p_jobs bigint[], p_which text, p_call boolean) RETURNS text[] LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.drop_schedule(p_name text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.end_parent(p windlass.parent, p_state text, p_reason text) RETURNS void LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.end_waiting(p_job bigint, p_kind text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.enqueue(task text, args json DEFAULT '{}'::json, queue text DEFAULT 'default'::text, priority text
    DEFAULT 'normal'::text, delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, max_attempts int DEFAULT NULL,
    timeout interval DEFAULT NULL, unique_key text DEFAULT NULL, on_conflict text DEFAULT 'skip'::text, idempotency_key text
    DEFAULT NULL, fair_key text DEFAULT NULL, tags text[] DEFAULT NULL, headers json DEFAULT NULL, trace text DEFAULT NULL,
    after bigint[] DEFAULT NULL, otherwise text DEFAULT 'dead'::text, ordering_key text DEFAULT NULL, concurrency_key text
    DEFAULT NULL, key_limit int DEFAULT 1) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.enqueue_gated(p_queue text, p_priority smallint, p_lane int, p_tasks text[], p_payloads text[],
    p_options text[], p_limited text[]) RETURNS bigint[] LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.enqueue_many(p_queue text, p_priority smallint, p_tasks text[], p_payloads text[], p_options text[]
    DEFAULT NULL, p_judge boolean DEFAULT true) RETURNS bigint[] LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.enqueue_one(p_task text, p_payload text, p_queue text, p_priority smallint, p_delay float8,
    p_run_at timestamptz, p_options text, p_on_conflict text, p_idempotency_key text, p_automatic boolean DEFAULT false,
    p_known boolean DEFAULT false, p_judge boolean DEFAULT true, OUT job bigint, OUT status text) RETURNS record LANGUAGE
    plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.enqueued_of(r windlass.ready) RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.epoch(p_now float8 DEFAULT NULL) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.expire(p_limit int, OUT dead bigint, OUT keys bigint, OUT workers bigint, OUT parents bigint, OUT
    more boolean) RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.expire_buckets(p_limit int) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.failures_of(p_job bigint) RETURNS json LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.finish(p_worker bigint, p_flush bigint, p_lanes int[], p_claims bigint[], p_seqs text[], p_ns
    int[], p_histograms text[], p_jobs bigint[], p_job_claims bigint[], p_job_lanes int[], p_job_seqs bigint[], p_results
    text[], p_others json, p_forgets boolean[] DEFAULT NULL, OUT applied bigint, OUT repeated bigint, OUT refused_claims
    bigint[], OUT refused_seqs text[], OUT refused_jobs bigint[], OUT freed text[]) RETURNS record LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.finish_others(p_worker bigint, p_flush bigint, p_others json, OUT applied bigint, OUT repeated
    bigint, OUT refused bigint[], OUT freed text[]) RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.fire_options(s windlass.schedule, p_time float8, p_behind bigint) RETURNS text LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.fire_schedule(p_term bigint, p_name text, p_expected float8, p_times float8[], p_next_at float8,
    p_skipped bigint, p_error text, OUT fired boolean, OUT jobs bigint[], OUT statuses text[]) RETURNS record LANGUAGE
    plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.first_gate(p_queue text, p_task text, p_options json, p_limited boolean) RETURNS text LANGUAGE
    plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.flow_of(q windlass.queue) RETURNS jsonb LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.flushed_in(p_claim bigint, p_flush bigint) RETURNS int8multirange LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.fold(p_parent bigint) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.follow(p_limit int, OUT looked int, OUT around boolean) RETURNS record LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.free_key(p_job bigint, p_snapshot pg_snapshot) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.full_xid(p_xid xid, p_near bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.gate_limit(p_kind text, p_task text, p_options json) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.gate_lock(p_gate text, p_wait int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.gate_reason(p_gate text) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.gate_tokens(p_gate text, p_each int) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.gate_wait(p_gate text) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.gather(p_inline int8multirange, p_spilled bigint[]) RETURNS int8multirange LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.give_back(p_worker bigint, p_kind text, p_delays float8[], p_limit int, OUT offered bigint, OUT
    deferred bigint, OUT dead bigint, OUT cancelled bigint, OUT left_over boolean, OUT freed text[]) RETURNS record LANGUAGE
    plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.give_tokens(p_budget text, p_n int, p_key text DEFAULT ''::text, p_age float8 DEFAULT 0) RETURNS
    void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.govern(p_term bigint, p_queue text, p_state jsonb) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.governed(p_term bigint) RETURNS TABLE(queue text, rate_min float8, rate_max float8, succeeded
    bigint, failed bigint, throttled bigint, times jsonb, waiting bigint, state jsonb) LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.hold_key(p_key text, p_job bigint, p_on_conflict text, p_spec json, OUT twin bigint, OUT status
    text, OUT replaces bigint) RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.holdings(p_worker bigint) RETURNS TABLE(claim bigint, segment smallint, ready windlass.ready)
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.hole_state(c windlass.claim, p_taken int8multirange, p_gaps int8multirange, p_dead bigint, p_xid
    bigint, OUT young int8multirange, OUT old int8multirange, OUT horizon bigint, OUT spilled bigint[], OUT holes bigint)
    RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.in_quotes(p_text text) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.is_parked(p_key text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.is_unfinished(p_job bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.is_wrong(p_owner bigint, p_held int8multirange, p_worker bigint, p_seqs int8multirange, p_flush
    bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.jitter_of(s windlass.schedule, p_time float8) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.job_of(r windlass.ready) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.judge_call(p_queues text[], p_priorities smallint[], p_keys text[]) RETURNS void LANGUAGE plpgsql
    AS 'BEGIN END';
CREATE FUNCTION windlass.judge_load(p_queue text, p_priority smallint, p_n int) RETURNS void LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.lane_depth(p_lane int) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.lane_for(p_queue text, p_priority smallint) RETURNS int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.lane_head(p_lane int, p_first int) RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.lane_heads(p_queues text[]) RETURNS TABLE(lane int, queue text, priority smallint, waited float8,
    waiting boolean, limited boolean, ring boolean) LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.lane_lock(p_lane int) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.lane_sure(p_queue text, p_priority smallint) RETURNS int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.lead(p_candidate bigint, p_length float8) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.limited_tasks(p_tasks text[]) RETURNS text[] LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.locate(p_job bigint) RETURNS TABLE(ready windlass.ready, claim bigint, worker bigint, claimed_at
    timestamptz, kind text, finished_at timestamptz) LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.lock_lanes_of(p_jobs bigint[]) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.lock_space() RETURNS int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.mark_idle(p_lane windlass.lane, p_hi bigint, p_holes bigint) RETURNS text LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.may_be_gated(p_task text, p_options text, p_limited text[]) RETURNS boolean LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.must_adopt() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.need_value(p_payload json, p_argument text, p_place int) RETURNS json LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.needs_of(p_needs json) RETURNS TABLE(task text, budget text, n int, argument text, place int)
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.next_claim(c windlass.claim) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.next_gate(p_job bigint, p_queue text, p_task text, p_options json) RETURNS text LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.next_lines(p_low text, p_high text, p_after text, p_n int) RETURNS text[] LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.next_step(p windlass.parent) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.note_ends(p_jobs bigint[], p_kind text) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.note_failure(p_job bigint, p_attempt int, p_type text, p_message text, p_traceback text) RETURNS
    void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.note_missed(p_after bigint, p_limit int, OUT jobs bigint[], OUT parents bigint[], OUT last bigint)
    RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.note_pressure() RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.note_refused(p_queue text, p_n int, p_shed boolean) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.now() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.observe(p_latency float8) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.offer(p_lane int, p_n int, p_tasks text[], p_payloads text[], p_options text[] DEFAULT NULL, p_ids
    bigint[] DEFAULT NULL, p_attempts smallint[] DEFAULT NULL, p_deaths smallint[] DEFAULT NULL, p_enqueued timestamptz[]
    DEFAULT NULL, p_since timestamptz[] DEFAULT NULL) RETURNS bigint[] LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.offer_held(p_rows windlass.held[]) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.offer_one(p_queue text, p_priority smallint, p_task text, p_payload json, p_options json, p_job
    bigint, p_attempt smallint, p_deaths smallint, p_enqueued timestamptz) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.offer_parts(p windlass.parent, p_options text[]) RETURNS bigint[] LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.open_claims(p_queue text) RETURNS TABLE(claim bigint, lane int, n bigint) LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.part_options(p windlass.parent, p_index int, p_span json, p_size bigint) RETURNS text LANGUAGE
    plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.pin_segment() RETURNS smallint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.place_claim(p_lane int, p_seq bigint) RETURNS TABLE(id bigint, worker bigint, claimed_at
    timestamptz, segment smallint) LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.place_outcome(p_claim bigint, p_seq bigint) RETURNS TABLE(kind text, at timestamptz) LANGUAGE
    plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.pressure_at(q windlass.queue, p_depth bigint) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.pressure_of(p_queue text) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.probe_pause(c windlass.claim) RETURNS interval LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.promised(p_gate text, p_but bigint[] DEFAULT '{}'::bigint[]) RETURNS int LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.promote(p_limit int) RETURNS int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.publish_horizon() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.put_off_for(d windlass.deferred) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.queue_load(p_queue text, p_enough bigint, p_wait boolean, OUT depth bigint, OUT wait float8)
    RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.queue_lock(p_lane int, p_wait int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.records_of(p_data json) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.redrive(parent bigint) RETURNS int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.redrive_parts(p_parent bigint, OUT parts int, OUT holder bigint) RETURNS record LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.register(p_id bigint, p_label text, p_host text, p_pid int, p_queues text[], p_lease float8 DEFAULT
    30) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.release(p windlass.parent) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.release_final(p windlass.parent) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.remember(p_key text, p_job bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.reopen(p_parent bigint, p_but bigint DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.reopen_for(p_job bigint, OUT parent bigint, OUT held boolean) RETURNS record LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.replace_step(p_limit int) RETURNS int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.report(p_runs jsonb) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.require_read_committed() RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.rescue_step(p_worker bigint, p_delays float8[], p_limit int, OUT offered bigint, OUT deferred
    bigint, OUT dead bigint, OUT cancelled bigint, OUT left_over boolean, OUT freed text[]) RETURNS record LANGUAGE plpgsql
    AS 'BEGIN END';
CREATE FUNCTION windlass.resign(p_candidate bigint) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.retire(p_worker bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.retry(job bigint) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.rotation_begin(p_force boolean, p_skip smallint[], OUT victim smallint, OUT turn bigint) RETURNS
    record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.rotation_judge(p_turn bigint, p_limit int, OUT removed int, OUT done boolean) RETURNS record
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.rotation_lock(p_turn bigint) RETURNS windlass.rotation LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.rotation_move(p_turn bigint, p_lane int, p_after bigint, p_limit int, OUT moved int, OUT
    offered_again int, OUT next_after bigint) RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.rotation_move_failures(p_turn bigint, p_after bigint, p_limit int, OUT moved int, OUT next_after
    bigint) RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.rotation_reclaim(p_turn bigint, p_grace float8, OUT moved int, OUT done boolean) RETURNS record
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.rotation_seal(p_turn bigint) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.rotation_touch(p_turn bigint, p_lane int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.schema_version(OUT version int, OUT functions text) RETURNS record LANGUAGE sql AS 'SELECT 5,
    ''''';
CREATE FUNCTION windlass.seed_schedule(p_definition jsonb, p_payload text, p_options text, p_next_at float8, p_error text)
    RETURNS windlass.schedule LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.segment_bytes(p_segment smallint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.set_budget(p_name text, p_changes jsonb) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.set_parent(parent bigint, parallel int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.set_queue(p_name text, p_changes jsonb DEFAULT '{}'::jsonb) RETURNS windlass.queue LANGUAGE plpgsql
    AS 'BEGIN END';
CREATE FUNCTION windlass.set_rate(p_queue text, p_rate float8) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.set_schedule(p_name text, p_paused boolean DEFAULT NULL, p_next_at float8 DEFAULT NULL) RETURNS
    SETOF windlass.schedule LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.set_task(p_name text, p_changes jsonb) RETURNS windlass.task_setting LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.settle(p_jobs bigint[], p_lanes int[], p_claims bigint[], p_kind text, p_snapshot pg_snapshot
    DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.settle_rest(p_limit int) RETURNS int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.shed_level(q windlass.queue, p_depth bigint, p_wait float8, p_latency float8) RETURNS float8
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.shown_as(p_kind text, p_claim bigint, p_options json) RETURNS text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.size_of(p_seqs int8multirange) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.spill(p_lane int, p_seqs int8multirange, p_horizon bigint, p_spilled bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.split(p_worker bigint, p_flush bigint, p_job bigint, p_lane int, p_claim bigint, p_seq bigint,
    p_spans text[], p_sizes bigint[], p_parallel int, p_tolerated int, p_finalizer boolean) RETURNS text LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.stamp(p_version int, p_functions text, p_idempotency_retention float8 DEFAULT NULL, p_retention
    float8 DEFAULT NULL, p_size_limit bigint DEFAULT NULL, p_park_after int DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.standing_of(p_job bigint) RETURNS TABLE(state text, attempt smallint) LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.stir_gates(p_gates text[], p_call boolean DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.sweep_gates(p_limit int, OUT admitted int, OUT again float8) RETURNS record LANGUAGE plpgsql AS
    'BEGIN END';
CREATE FUNCTION windlass.sweep_passes(p_limit int) RETURNS int LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.take_ahead(p_lane int, p_seqs bigint[], p_kind text) RETURNS bigint[] LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.take_tokens(p_budget text, p_n int DEFAULT 1, p_key text DEFAULT ''::text, OUT granted boolean, OUT
    wait float8) RETURNS record LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.tell_budget(p_budget text, p_succeeded bigint, p_failed bigint, p_now float8 DEFAULT NULL) RETURNS
    text LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.throttle(p_queue text, p_hint float8 DEFAULT NULL) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.turn(p_name text, p_every float8) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.unfinished(p_claim bigint, p_seqs int8multirange) RETURNS int8multirange LANGUAGE plpgsql AS 'BEGIN
    END';
CREATE FUNCTION windlass.unknown_since(p_options json, p_unknown boolean) RETURNS json LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.wake(p_word text) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.warm(p_queue text, p_force boolean DEFAULT false) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.worker_alone(p_worker bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION windlass.worker_fence(p_worker bigint) RETURNS void LANGUAGE plpgsql AS 'BEGIN END';

CREATE VIEW windlass.job AS SELECT NULL::bigint AS id, NULL::text AS task, NULL::text AS queue, NULL::smallint AS priority,
    NULL::text AS state, NULL::smallint AS attempt, NULL::smallint AS deaths, NULL::json AS payload, NULL::json AS options,
    NULL::timestamptz AS enqueued_at, NULL::timestamptz AS run_at, NULL::timestamptz AS claimed_at, NULL::timestamptz AS
    finished_at, NULL::bigint AS worker, NULL::bigint AS claim, NULL::text AS reason, NULL::bigint AS parent, NULL::int AS
    part, NULL::int AS parts;

CREATE VIEW windlass.job_parent AS SELECT NULL::bigint AS id, NULL::text AS task, NULL::text AS queue, NULL::text AS state,
    NULL::int AS total, NULL::int AS succeeded, NULL::int AS dead, NULL::int AS cancelled, NULL::int AS out, NULL::int AS
    parallel, NULL::int AS tolerated, NULL::bigint AS size, NULL::bigint AS done, NULL::bigint AS records, NULL::bigint AS
    final, NULL::boolean AS cancel_requested, NULL::text AS reason, NULL::timestamptz AS enqueued_at, NULL::timestamptz AS
    created_at, NULL::timestamptz AS finished_at;

CREATE VIEW windlass.job_part AS SELECT NULL::bigint AS parent, NULL::int AS index, NULL::int AS total, NULL::json AS span,
    NULL::bigint AS size, NULL::text AS state, NULL::bigint AS job, NULL::smallint AS attempt, NULL::bigint AS done,
    NULL::bigint AS records, NULL::text AS error, NULL::timestamptz AS created_at;

-- Lane 1: jobs 1 and 2 run, 1 in a flush of its own ended well, with its run times; 3 waits; 4 is a retry, offered an hour after
-- it was enqueued. Then one that is due, and one that waits for its turn behind job 2, which holds the pass.
INSERT INTO windlass.queue (name) VALUES ('default');
CREATE SEQUENCE windlass.lane_1_position MINVALUE 1 MAXVALUE 17592186044415;
CREATE SEQUENCE windlass.lane_1_idle MINVALUE 0 MAXVALUE 1 START 1;
SELECT setval('windlass.lane_1_position', 4), setval('windlass.lane_1_idle', 0), setval('windlass.lane_id', 1),
       setval('windlass.claim_id', 2), setval('windlass.job_id', 5), setval('windlass.held_turn', 2);
INSERT INTO windlass.lane (id, queue, priority, position, idle)
VALUES (1, 'default', 2, 'windlass.lane_1_position', 'windlass.lane_1_idle');
INSERT INTO windlass.worker (id, label, host, pid, queues, started_at) VALUES (7, 'w', 'here', 1, '{default}', now());
INSERT INTO windlass.worker_life (id) VALUES (7);
INSERT INTO windlass.worker_beat (id, at) VALUES (7, now());
INSERT INTO windlass.ready (seq, offered_at, enqueued_at, id, attempt, lane, segment, task, payload, options)
VALUES (1, now(), NULL, NULL, 1, 1, 0, 'ended', '{}', NULL),
       (2, now(), now(), 2, 1, 1, 0, 'running', '{}', '{"ordering_key": "k"}'),
       (3, now(), NULL, NULL, 1, 1, 0, 'ready', '{}', NULL),
       (4, now(), now() - interval '1 hour', 4, 2, 1, 0, 'again', '{}', NULL);
INSERT INTO windlass.claim (id, worker, hi, claimed_at, probed_at, lane, n, segment, seqs)
VALUES (1, 0, 0, now(), now(), 1, 0, 0, '{}'), (2, 7, 2, now(), now(), 1, 2, 0, '{[1,3)}');
INSERT INTO windlass.outcome (claim, flush, at, lane, n, segment, kind, seqs, histogram)
VALUES (2, 1, now(), 1, 1, 0, 'succeeded', '{[1,2)}', '{0,1}');
INSERT INTO windlass.pass (job, turn, enqueued_at, at, need, gate) VALUES (2, 1, now(), now(), 1, 'order:default/k');
INSERT INTO windlass.order_mark (position, at, queue, key) VALUES (1, now(), 'default', 'k');
INSERT INTO windlass.held (id, turn, since, enqueued_at, priority, queue, gate, task, payload, options)
VALUES (3, 2, now(), now(), 2, 'default', 'order:default/k', 'behind', '{}', '{"ordering_key": "k"}');
INSERT INTO windlass.deferred (id, run_at, enqueued_at, priority, retrying, attempt, queue, task, payload, options)
VALUES (5, now(), now(), 2, false, 1, 'default', 'scheduled', '{}', NULL);
