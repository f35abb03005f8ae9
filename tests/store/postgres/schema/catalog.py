"""What a schema holds, as text that can be compared: tables, indexes, sequences, types, triggers, functions,
views, rights, and the options that tables are stored with."""

from typing import Any

from tests.store.postgres.kit import Session

COLUMNS = """
SELECT 'column', c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid), a.attidentity::text,
       (SELECT collname FROM pg_collation WHERE oid = a.attcollation)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relnamespace = $1::text::regnamespace AND c.relkind IN ('r', 'p', 'v', 'c')
"""
RELATIONS = """
SELECT 'relation', c.relname, c.relkind::text, c.reloptions::text, pg_get_expr(c.relpartbound, c.oid),
       (SELECT t.reloptions::text FROM pg_class t WHERE t.oid = c.reltoastrelid), pg_get_partkeydef(c.oid),
       c.relacl::text, c.relpersistence::text, c.relreplident::text
  FROM pg_class c WHERE c.relnamespace = $1::text::regnamespace AND c.relkind <> 'i' AND c.relkind <> 't'
"""
INDEXES = """
SELECT 'index', pg_get_indexdef(i.indexrelid), i.indisunique, i.indisprimary, i.indisreplident
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = $1::text::regnamespace
"""
CONSTRAINTS = """
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = $1::text::regnamespace
"""
SEQUENCES = """
SELECT 'sequence', s.seqrelid::regclass::text, s.seqstart, s.seqmin, s.seqmax,
       s.seqincrement, s.seqcache, s.seqcycle,
       pg_sequence_last_value(s.seqrelid)
  FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid WHERE c.relnamespace = $1::text::regnamespace
"""
FUNCTIONS = """
SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid), p.proacl::text
  FROM pg_proc p WHERE p.pronamespace = $1::text::regnamespace
"""
TRIGGERS = """
SELECT 'trigger', pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE c.relnamespace = $1::text::regnamespace AND NOT t.tgisinternal
"""
VIEWS = "SELECT 'view', viewname, definition FROM pg_views WHERE schemaname = $1"


async def picture(session: Session, schema: str) -> list[tuple[Any, ...]]:
    """Everything that the catalog says of one schema, in an order of its own."""
    found: list[tuple[Any, ...]] = []
    for sql in (COLUMNS, RELATIONS, INDEXES, CONSTRAINTS, SEQUENCES, FUNCTIONS, TRIGGERS, VIEWS):
        found += [tuple(row) for row in await session.rows(sql, schema)]
    return sorted(found, key=repr)
