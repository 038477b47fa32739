import pg from 'pg'
import { noteConnectError } from './errors.ts'

type Connected = ((error: Error) => void) | ((error: null, client: pg.Client) => void)

/** A client whose connect errors count as an outage of the database, whatever their code is. */
export class DatabaseClient extends pg.Client {
  override connect(): Promise<pg.Client>
  override connect(callback: Connected): void
  override connect(callback?: Connected): Promise<pg.Client> | undefined {
    if (callback === undefined)
      return super.connect().catch((error) => {
        noteConnectError(error)
        throw error
      })
    super.connect((error: Error | null) => {
      if (error !== null) noteConnectError(error)
      ;(callback as (error: Error | null, client: pg.Client) => void)(error, this)
    })
    return undefined
  }
}
