import { hex, orAbsent } from './fields.ts'

/** A commitment of an event to a value of the vault. @param to the value, e.g. `the hash of the key` */
export const commitment = (to: string) =>
  orAbsent(
    hex(
      32,
      `SHA-256 over ${to} as it stands in the vault, salted (docs/decisions/0074); absent in an event of an older release`,
    ),
  )
