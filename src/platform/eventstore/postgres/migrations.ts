import type { Migrations } from '../../postgres/migrate.ts'

/**
 * The tables and functions of the log. A batch of items is written by `log.begin_batch`, a copy and `log.close_batch`,
 * or by `log.append_as_judged`. docs/decisions/0002 gives the reasons and the measurements.
 *
 * - The head row is locked first, until the commit, so positions are assigned in commit order: a reader that sees a
 *   position sees every lower one, and there are no gaps. Each later statement of the function takes a new snapshot,
 *   because the function is volatile. So it sees all commits from before the lock was acquired. A single statement
 *   would check against a snapshot from before the wait.
 * - Appends are passed as flat arrays in the order of writing. `expected` is -1 for a stream that must not exist.
 *   `chained` appends follow an earlier append of their item to the same stream. Events have the ordinal of their
 *   append and their new revision.
 * - `log.append_as_judged` returns the position before the batch. `verdicts` is null if every expectation was right:
 *   then all events were appended in the given order. Otherwise `verdicts` has a pair for each append:
 *   ['landed', null] (appended now: its events follow one another after `base`, in the given order),
 *   ['stands', position of its last event] (the log already has these events at their revisions: a resend),
 *   ['conflict', actual revision], ['withheld', null] (another append of its item conflicts).
 * - Ids are compared only with the event at the same revision of the stream, so they need no index.
 */
export const migrations: Migrations = {
  '0001_log': `
    create table log.events (
      position bigint primary key,
      -- Byte order: an index in a language's order breaks when the system's rules of that language change.
      stream text collate "C" not null,
      revision bigint not null,
      id uuid not null,
      type text not null,
      data text not null,
      metadata text not null,
      unique (stream, revision)
    );

    -- One row. The low fill factor leaves room for its versions on one page, so that each update stays there.
    create table log.head (
      singleton boolean primary key default true check (singleton),
      log_id uuid not null default gen_random_uuid(),
      last_position bigint not null
    ) with (fillfactor = 10);
    insert into log.head (last_position) values (0);

    create function log.refuse_change() returns trigger language plpgsql as $$
    begin
      raise exception 'the log is append-only: % of %.% is refused', lower(tg_op), tg_table_schema, tg_table_name
        using errcode = 'restrict_violation';
    end
    $$;
    create trigger append_only before update or delete or truncate on log.events
      for each statement execute function log.refuse_change();
    create trigger never_removed before delete or truncate on log.head
      for each statement execute function log.refuse_change();
    create trigger keeps_its_id before update of singleton, log_id on log.head
      for each statement execute function log.refuse_change();

    create function log.append(
      items int[], streams text[], expected bigint[], chained boolean[], counts int[],
      event_appends int[], event_streams text[], event_revisions bigint[],
      ids uuid[], types text[], data text[], metadata text[],
      out base bigint, out verdicts json
    ) language plpgsql as $$
    declare
      landed bigint;
    begin
      select h.last_position into strict base from log.head h for update;

      if not exists (
        select from unnest(streams, expected, chained) a(stream, expected, chained)
        where not a.chained and a.expected <> coalesce(
          (select e.revision from log.events e where e.stream = a.stream order by e.revision desc limit 1), -1)
      ) then
        insert into log.events (position, stream, revision, id, type, data, metadata)
        select base + e.n, e.stream, e.revision, e.id, e.type, e.data, e.metadata
        from unnest(event_streams, event_revisions, ids, types, data, metadata)
          with ordinality e(stream, revision, id, type, data, metadata, n);
        landed := cardinality(ids);
      else
        with a as materialized (
          select a.*, coalesce(
            (select e.revision from log.events e where e.stream = a.stream order by e.revision desc limit 1), -1) actual
          from unnest(items, streams, expected, counts) with ordinality a(item, stream, expected, count, n)
        ), standing as materialized (
          select e.append, count(*) count, max(l.position) position
          from unnest(event_appends, event_streams, event_revisions, ids, types, data, metadata)
            e(append, stream, revision, id, type, data, metadata)
          join log.events l on l.stream = e.stream and l.revision = e.revision
            and l.id = e.id and l.type = e.type and l.data = e.data and l.metadata = e.metadata
          group by e.append
        ), judged as (
          select a.n, a.item, a.actual, s.position, case
            when s.count = a.count then 'stands'
            when s.count is null and a.actual <= a.expected
              and bool_or(a.actual = a.expected) over (partition by a.item, a.stream) then 'landed'
            else 'conflict' end verdict
          from a left join standing s on s.append = a.n
        ), settled as (
          select j.*, case when j.verdict = 'landed' and bool_or(j.verdict = 'conflict') over (partition by j.item)
            then 'withheld' else j.verdict end final
          from judged j
        )
        select json_agg(json_build_array(final,
          case final when 'stands' then position when 'conflict' then actual end) order by n)
        into strict verdicts from settled;

        insert into log.events (position, stream, revision, id, type, data, metadata)
        select base + row_number() over (order by e.n), e.stream, e.revision, e.id, e.type, e.data, e.metadata
        from unnest(event_appends, event_streams, event_revisions, ids, types, data, metadata)
          with ordinality e(append, stream, revision, id, type, data, metadata, n)
        join json_array_elements(verdicts) with ordinality v(pair, append) on v.append = e.append
        where v.pair ->> 0 = 'landed';
        get diagnostics landed = row_count;
      end if;

      if landed > 0 then
        update log.head set last_position = base + landed;
        perform pg_notify('farebox_log', (base + landed)::text);
      end if;
    end
    $$;
  `,
  // Faster for the usual batch, in which every expectation is right: a set-returning function in `from` stores its rows
  // before they are read, one in the select list does not (saves 3 of 24 µs per event). Batches with a wrong
  // expectation are handled as before.
  '1201_append_in_lockstep': `
    alter function log.append rename to append_judged;

    create function log.append(
      items int[], streams text[], expected bigint[], chained boolean[], counts int[],
      event_appends int[], event_streams text[], event_revisions bigint[],
      ids uuid[], types text[], data text[], metadata text[],
      out base bigint, out verdicts json
    ) language plpgsql as $$
    declare
      landed bigint := cardinality(ids);
    begin
      select h.last_position into strict base from log.head h for update;

      if exists (
        select from (
          select unnest(streams) as stream, unnest(expected) as expected, unnest(chained) as chained
        ) a
        where not a.chained and a.expected <> coalesce(
          (select e.revision from log.events e where e.stream = a.stream order by e.revision desc limit 1), -1)
      ) then
        select j.base, j.verdicts into strict base, verdicts
        from log.append_judged(items, streams, expected, chained, counts,
          event_appends, event_streams, event_revisions, ids, types, data, metadata) j;
        return;
      end if;

      insert into log.events (position, stream, revision, id, type, data, metadata)
      select base + generate_series(1, landed), unnest(event_streams), unnest(event_revisions), unnest(ids),
        unnest(types), unnest(data), unnest(metadata);
      update log.head set last_position = base + landed;
      perform pg_notify('farebox_log', (base + landed)::text);
    end
    $$;
  `,
  // Does not check that a new stream is absent: if the stream exists, the index of (stream, revision) refuses its
  // revision 0, and then the batch goes to `log.append_judged`. The check took a fifth of the time of a batch of
  // orders. Existing streams are still checked first, because a refused row stays in the table until a vacuum.
  '1202_append_without_looking_for_new_streams': `
    create or replace function log.append(
      items int[], streams text[], expected bigint[], chained boolean[], counts int[],
      event_appends int[], event_streams text[], event_revisions bigint[],
      ids uuid[], types text[], data text[], metadata text[],
      out base bigint, out verdicts json
    ) language plpgsql as $$
    declare
      landed bigint := cardinality(ids);
      holds boolean;
    begin
      select h.last_position into strict base from log.head h for update;

      holds := not exists (
        select from (
          select unnest(streams) as stream, unnest(expected) as expected, unnest(chained) as chained
        ) a
        where not a.chained and a.expected >= 0 and a.expected <> coalesce(
          -- From the expected one on: without that, a page of older revisions is read first.
          (select e.revision from log.events e
           where e.stream = a.stream and e.revision >= a.expected order by e.revision desc limit 1), -1)
      );
      if holds then
        begin
          insert into log.events (position, stream, revision, id, type, data, metadata)
          select base + generate_series(1, landed), unnest(event_streams), unnest(event_revisions), unnest(ids),
            unnest(types), unnest(data), unnest(metadata);
        exception when unique_violation then
          holds := false;
        end;
      end if;
      if not holds then
        select j.base, j.verdicts into strict base, verdicts
        from log.append_judged(items, streams, expected, chained, counts,
          event_appends, event_streams, event_revisions, ids, types, data, metadata) j;
        return;
      end if;

      update log.head set last_position = base + landed;
      perform pg_notify('farebox_log', (base + landed)::text);
    end
    $$;
  `,
  // Writes events by `copy`, which writes many rows with one record of the write-ahead log and extends the table by
  // several pages at once: a fifth of an append's time (docs/decisions/0002). Before the copy,
  // `log.open_batch` checks the expectations in the same transaction. It moves the head to the end of the batch and
  // returns the position before it. The copied events get the next positions. If an expectation is wrong, it returns
  // null and sets negative positions, which the copy skips. Then `log.append_judged` is called. As before, the index of
  // (stream, revision) refuses a stream that must not exist. `log.append` remains for processes of the previous
  // version.
  //
  // The sequence is set for each batch, under the lock of the head. Its value between batches has no meaning.
  // `log.close_batch` aborts a batch whose last position is not the head: then another writer, such as an operator's
  // insert, used a position in between, and the batch would have a gap.
  '1301_append_by_copy': `
    create sequence log.positions minvalue -9223372036854775808;
    alter table log.events alter column position set default nextval('log.positions');

    create function log.open_batch(
      streams text[], expected bigint[], chained boolean[], events bigint, out base bigint
    ) language plpgsql as $$
    begin
      select h.last_position into strict base from log.head h for update;
      if exists (
        select from (
          select unnest(streams) as stream, unnest(expected) as expected, unnest(chained) as chained
        ) a
        where not a.chained and a.expected >= 0 and a.expected <> coalesce(
          (select e.revision from log.events e
           where e.stream = a.stream and e.revision >= a.expected order by e.revision desc limit 1), -1)
      ) then
        base := null;
        perform setval('log.positions', -9223372036854775808, false);
        return;
      end if;
      perform setval('log.positions', base + 1, false);
      update log.head set last_position = base + events;
      perform pg_notify('farebox_log', (base + events)::text);
    end
    $$;

    create function log.close_batch() returns void language plpgsql as $$
    declare
      given bigint := (select last_value from log.positions);
      head bigint := (select last_position from log.head);
    begin
      if given > 0 and given <> head then
        raise exception 'positions up to % were given out, but the batch ends at %', given, head
          using errcode = 'transaction_rollback', hint = 'Only log.open_batch may use the sequence log.positions.';
      end if;
    end
    $$;
  `,
  // A commit that notifies takes a lock of the whole server. Now the appending process notifies after its commit
  // (wake-up.ts). Other processes find the appends of an older version by their polls.
  '4601_announce_after_the_commit': `
    do $$
    declare
      announcing constant text := 'perform pg_notify\\([^;]*;';
      definition text;
    begin
      for definition in
        select pg_get_functiondef(p.oid) from pg_proc p
        where p.pronamespace = 'log'::regnamespace and p.proname in ('append', 'append_judged', 'open_batch')
      loop
        assert definition ~ announcing, 'a function of the log announces in another way';
        execute regexp_replace(definition, announcing, '', 'g');
      end loop;
    end
    $$;
  `,
  // The functions run with the rights of their owner. So the role of the service, which owns nothing here, can append
  // without the right to change the head or to set the sequence (src/platform/postgres/migrate.ts). Names without a
  // schema resolve to pg_catalog, whatever the caller's search_path. A batch with a negative number of events would
  // move the head back.
  '4602_append_as_the_owner': `
    create or replace function log.open_batch(
      streams text[], expected bigint[], chained boolean[], events bigint, out base bigint
    ) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
    begin
      if events is null or events < 0 then
        raise exception 'a batch of % events is none', events using errcode = 'invalid_parameter_value';
      end if;
      select h.last_position into strict base from log.head h for update;
      if exists (
        select from (
          select unnest(streams) as stream, unnest(expected) as expected, unnest(chained) as chained
        ) a
        where not a.chained and a.expected >= 0 and a.expected <> coalesce(
          (select e.revision from log.events e
           where e.stream = a.stream and e.revision >= a.expected order by e.revision desc limit 1), -1)
      ) then
        base := null;
        perform setval('log.positions', -9223372036854775808, false);
        return;
      end if;
      perform setval('log.positions', base + 1, false);
      update log.head set last_position = base + events;
    end
    $$;
    do $$
    declare
      routine regprocedure;
    begin
      for routine in
        select p.oid from pg_proc p
        where p.pronamespace = 'log'::regnamespace and p.proname in ('append', 'append_judged')
      loop
        execute format('alter function %s security definer set search_path = pg_catalog, pg_temp', routine);
      end loop;
      for routine in select p.oid from pg_proc p where p.pronamespace = 'log'::regnamespace loop
        execute format('revoke execute on function %s from public', routine);
      end loop;
    end
    $$;
  `,
  // One row per batch, signed by the appending process and committed with the batch
  // (docs/decisions/0077). The head is locked, so it is the last position of the batch.
  '4603_signatures': `
    create table log.signatures (
      first_position bigint primary key,
      events integer not null check (events > 0),
      public_key bytea not null check (octet_length(public_key) = 32),
      number bigint not null check (number > 0),
      previous_position bigint not null check (previous_position >= 0),
      signature bytea not null check (octet_length(signature) = 64)
    );
    create trigger append_only before update or delete or truncate on log.signatures
      for each statement execute function log.refuse_change();

    create function log.sign_batch(
      events integer, public_key bytea, number bigint, previous_position bigint, signature bytea
    ) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
    begin
      insert into log.signatures (first_position, events, public_key, number, previous_position, signature)
      select h.last_position - $1 + 1, $1, $2, $3, $4, $5 from log.head h;
    end
    $$;
    revoke execute on function log.sign_batch from public;
  `,
  // Stops the appends of processes of an older version, which may not sign their batches: they call these functions by
  // the old names, and answer 503 if they cannot write. Otherwise their unsigned events would look like events that
  // were inserted without the service (docs/decisions/0077). A migration that changes the duties of an append renames
  // the functions again.
  '4690_older_versions_append_no_more': `
    drop function log.append;
    alter function log.open_batch rename to begin_batch;
    alter function log.append_judged rename to append_as_judged;
  `,
  // Checks the time of a batch with the one clock that all processes share (event-times.ts). A process calls it in the
  // transaction of each batch. The class of the error code means that the batch was rolled back and may be sent again.
  '1731_no_event_of_the_future': `
    create function log.refuse_future(decided timestamptz, ahead interval) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
    begin
      if decided > clock_timestamp() + ahead + interval '5 seconds' then
        raise exception 'an event of % is of the future: it is % now', decided, clock_timestamp() + ahead
          using errcode = '55F01';
      end if;
    end
    $$;
    revoke execute on function log.refuse_future from public;
  `,
}
