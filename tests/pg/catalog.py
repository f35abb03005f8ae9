"""What a schema holds, as text that can be compared: tables, indexes, sequences, functions, views, rights."""

from typing import Any

from tests.pg.kit import Session

COLUMNS = """
SELECT 'column', c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid), (SELECT collname FROM pg_collation WHERE oid = a.attcollation)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relnamespace = $1::text::regnamespace AND c.relkind IN ('r', 'p', 'v')
"""
RELATIONS = """
SELECT 'relation', c.relname, c.relkind::text, c.reloptions::text, pg_get_expr(c.relpartbound, c.oid),
       c.relacl::text, c.relpersistence::text, c.relreplident::text
  FROM pg_class c WHERE c.relnamespace = $1::text::regnamespace AND c.relkind <> 'i' AND c.relkind <> 't'
"""
INDEXES = """
SELECT 'index', pg_get_indexdef(i.indexrelid), i.indisunique, i.indisprimary
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = $1::text::regnamespace
"""
CONSTRAINTS = """
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = $1::text::regnamespace
"""
SEQUENCES = """
SELECT 'sequence', s.seqrelid::regclass::text, s.seqstart, s.seqmin, s.seqmax, s.seqcache, s.seqcycle,
       pg_sequence_last_value(s.seqrelid)
  FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid WHERE c.relnamespace = $1::text::regnamespace
"""
FUNCTIONS = """
SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid), p.proacl::text
  FROM pg_proc p WHERE p.pronamespace = $1::text::regnamespace
"""
VIEWS = "SELECT 'view', viewname, definition FROM pg_views WHERE schemaname = $1"


async def picture(session: Session, schema: str) -> list[tuple[Any, ...]]:
    """Everything that the catalog says of one schema, in an order of its own."""
    found: list[tuple[Any, ...]] = []
    for sql in (COLUMNS, RELATIONS, INDEXES, CONSTRAINTS, SEQUENCES, FUNCTIONS, VIEWS):
        found += [tuple(row) for row in await session.rows(sql, schema)]
    return sorted(found, key=repr)
