import type { TestContext } from 'node:test'
import type pg from 'pg'

export const acceptEvents = (pool: pg.Pool) => pool.query('drop trigger if exists refuse on log.events')

/** Has the log refuse events until `acceptEvents`, or the end of the test. */
export const refuseEvents = (t: TestContext, pool: pg.Pool, condition: string, errcode: string) => {
  t.after(() => acceptEvents(pool))
  return pool.query(`
    create or replace function log.refuse() returns trigger language plpgsql as
      $$ begin raise exception using errcode = '${errcode}', message = 'refused'; end $$;
    create trigger refuse before insert on log.events for each row when (${condition}) execute function log.refuse()`)
}
