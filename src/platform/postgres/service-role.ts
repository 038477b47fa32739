import type pg from 'pg'
import { transact } from './transaction.ts'

/**
 * What the service's role may do, of what the owner made. It owns the read tables, which it makes anew, and makes scratch
 * schemas; it writes work, the vault and the engine's rows; and of the log it may read and append, through functions that
 * run as their owner wherever more is needed than an insert. It changes no function, key, trigger, owner or right.
 *
 * Only what is missing is granted, so that a start mostly changes nothing.
 */
const granting = `
  do $$
  declare
    service constant name := current_setting('farebox.service');
    found record;
  begin
    if not has_database_privilege(service, current_database(), 'create') then
      execute format('grant create on database %I to %I', current_database(), service);
    end if;
    for found in
      select n.nspname from pg_namespace n where n.nspname in ('log', 'engine', 'vault', 'work')
        and not has_schema_privilege(service, n.oid, 'usage')
    loop
      execute format('grant usage on schema %I to %I', found.nspname, service);
    end loop;

    for found in
      select n.nspname, c.relname, c.relkind, string_agg(w.wanted, ', ') as wanted
        from pg_class c join pg_namespace n on n.oid = c.relnamespace,
          unnest(case
            when n.nspname || '.' || c.relname = 'log.events' then array['select', 'insert']
            when n.nspname = 'log' and c.relkind = 'S' then array['select', 'usage']
            when n.nspname = 'log' or n.nspname = 'public' then array['select']
            when c.relkind = 'S' then array['select', 'usage', 'update']
            when n.nspname || '.' || c.relname = 'work.event_digests' then array['select', 'insert', 'delete']
            when n.nspname || '.' || c.relname = 'work.verifications' then array['select', 'insert', 'update']
            when n.nspname = 'work' then array['select', 'insert', 'update', 'delete', 'truncate']
            else array['select', 'insert', 'update', 'delete'] end) w(wanted)
       where c.relkind in ('r', 'p', 'v', 'S')
         and (n.nspname in ('log', 'engine', 'vault', 'work') or n.nspname || '.' || c.relname = 'public.farebox_migration')
         and not case c.relkind when 'S' then has_sequence_privilege(service, c.oid, w.wanted)
           else has_table_privilege(service, c.oid, w.wanted) end
       group by n.nspname, c.relname, c.relkind
    loop
      execute format('grant %s on %s %I.%I to %I', found.wanted,
        case found.relkind when 'S' then 'sequence' else 'table' end, found.nspname, found.relname, service);
    end loop;

    for found in
      select p.oid::regprocedure as routine from pg_proc p
       where p.pronamespace = 'log'::regnamespace and p.prorettype <> 'trigger'::regtype
         and not has_function_privilege(service, p.oid, 'execute')
    loop
      execute format('grant execute on function %s to %I', found.routine, service);
    end loop;

    -- The read tables, and what a rebuild or a verification that was killed left behind.
    for found in
      select n.nspname from pg_namespace n
       where (n.nspname = 'read' or n.nspname like 'read\\_next\\_%' or n.nspname like 'verify\\_%')
         and pg_get_userbyid(n.nspowner) <> service
    loop
      execute format('alter schema %I owner to %I', found.nspname, service);
    end loop;
    for found in
      select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where (n.nspname = 'read' or n.nspname like 'read\\_next\\_%' or n.nspname like 'verify\\_%')
         and c.relkind in ('r', 'p') and pg_get_userbyid(c.relowner) <> service
    loop
      execute format('alter table %I.%I owner to %I', found.nspname, found.relname, service);
    end loop;
  end
  $$`

/**
 * Gives a role what the service needs in a migrated database, and no more. To be called by the owner of the database, who
 * must be a member of the role or a superuser, while nobody else migrates.
 */
export const grantService = (client: pg.ClientBase, role: string): Promise<void> =>
  transact(client, async () => {
    await client.query("select set_config('farebox.service', $1::text, true)", [role])
    await client.query(granting)
  })
