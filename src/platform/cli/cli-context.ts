import type pg from 'pg'
import type { Logger } from 'pino'
import type { Calendar } from '../../kernel/calendar.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Actor } from '../../kernel/event.ts'
import type { CommandRunner } from '../commands/command.ts'
import type { EventCodec } from '../eventstore/codec.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { StoreSettings } from '../outgoing/open-object-store.ts'
import type { Db } from '../postgres/kysely.ts'
import type { KeySettings, Keys } from '../vault/keys.ts'
import type { Scheduler } from '../work/scheduler.ts'

/** The settings that the commands of features need. */
export type CliSettings = KeySettings & {
  /** Null: the embedded Postgres. */
  readonly databaseUrl: string | null
  /** Null: the serving role owns the database, or Postgres is embedded. */
  readonly databaseOwnerUrl: string | null
  /** Null: the auditor has no role of its own, or Postgres is embedded. */
  readonly databaseAuditorUrl: string | null
  /** Null: the log is in Postgres. */
  readonly eventStoreUrl: string | null
  /** The storage of seals. Commands that read such storage use the same access. */
  readonly sealTarget: StoreSettings
  /** Whether events are checked against the invariants before they are sealed, and the action on a violation. */
  readonly checkInvariants: boolean
  readonly auditAction: string
  /** The service's own payment gateways, and those of the sandbox; null: no sandbox. */
  readonly payments: {
    readonly gateways: readonly { readonly provider: string }[]
    readonly sandbox: object | null
  }
  /** The address of the console for people; null: the address that the server listens on. */
  readonly console: { readonly url: string | null }
  /** The port of the server. */
  readonly port: number
  /** The connection data in plans and rentals. */
  readonly gateway: {
    readonly host: string
    readonly port: number
    readonly tls: { readonly port: number } | null
  }
}

/**
 * The context of a command: the same settings, database, log and rules as the server's. It is safe while a server runs.
 */
export type CliContext = {
  readonly config: CliSettings
  readonly keys: Keys
  readonly pool: pg.Pool
  /** For the auditor's tables and locks, with its role; `pool` if it has none of its own. */
  readonly auditorPool: pg.Pool
  /** Typed queries over `pool`. */
  readonly db: Db
  readonly log: EventLog
  readonly codec: EventCodec
  readonly runner: CommandRunner
  /** The service's clock: Postgres's time and the development offset. */
  readonly clock: Clock
  /** Of the accounting time zone. */
  readonly calendar: Calendar
  readonly clockGuard: {
    /** How far the machine's clock was ahead of Postgres's at the last comparison, milliseconds; negative: behind. */
    aheadMs(): number
    /** Compares the clocks now. */
    check(): Promise<void>
  }
  /** Writes to standard error, from `warn` up unless LOG_LEVEL says otherwise. */
  readonly logger: Logger
  readonly scheduler: Scheduler
  /** The operator who runs the command, by the name of the system user. */
  readonly actor: Actor
  /** Unique for each run of a command, `run_…`. */
  readonly correlationId: string
}

/** How a command opens its context. */
export type OpenOptions = {
  /** Creates the Farebox if there is none. */
  readonly makes: boolean
  /** The command appends the events of another log unchanged, and signs nothing. */
  readonly copies?: boolean
  /**
   * The command examines a database that an attacker may have changed. No missing or changed table stops the opening: the
   * command reports it.
   */
  readonly examines?: boolean
}

export type OpenContext = (
  options?: OpenOptions,
) => Promise<{ readonly context: CliContext; close(): Promise<void> }>

/** What a command has before a Farebox is open. */
export type BareContext<Settings extends CliSettings = CliSettings> = {
  /** The system's clock, without FAREBOX_CLOCK_OFFSET_MS. */
  readonly clock: Clock
  readonly environment: NodeJS.ProcessEnv
  /** The width of the terminal; undefined: no terminal. */
  readonly columns: number | undefined
  /** @throws SettingsRefused */
  readSettings(): Promise<Settings>
  readonly open: OpenContext
  /** The error of a work with this context as a refusal if its cause is a read table; else the error itself. */
  explain(error: unknown, context: CliContext): Promise<unknown>
}
