import type pg from 'pg'
import { newId } from '../../kernel/ids.ts'

export type StaffMember = { readonly staffId: string; readonly email: string; readonly createdAt: string }

/** The member of the staff with this address, made when there is none. Addresses that differ in case only are one. */
export const claimStaff = async (pool: pg.Pool, email: string): Promise<string> => {
  const { rows } = await pool.query<{ staff_id: string }>(
    `insert into vault.staff (staff_id, email) values ($1::text, $2::text)
     on conflict ((lower(email))) do update set email = vault.staff.email returning staff_id`,
    [newId<string>('stf'), email],
  )
  return rows[0]!.staff_id
}

/** By id or by address; null when nobody has it. */
export const findStaff = async (pool: pg.Pool, idOrEmail: string): Promise<StaffMember | null> => {
  const { rows } = await pool.query<{ staff_id: string; email: string; created_at: string }>(
    `select staff_id, email, created_at from vault.staff
      where staff_id = $1::text or lower(email) = lower($1::text)`,
    [idOrEmail],
  )
  const [row] = rows
  return row ? { staffId: row.staff_id, email: row.email, createdAt: row.created_at } : null
}

/** Everybody who ever was given a role, in the order in which they came. */
export const listStaff = async (pool: pg.Pool): Promise<readonly StaffMember[]> => {
  const { rows } = await pool.query<{ staff_id: string; email: string; created_at: string }>(
    'select staff_id, email, created_at from vault.staff order by staff_id',
  )
  return rows.map((row) => ({ staffId: row.staff_id, email: row.email, createdAt: row.created_at }))
}
