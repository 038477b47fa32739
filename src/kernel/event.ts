import { z } from 'zod'
import type { ShapeValue } from './event-fields.ts'
import type { StreamName } from './streams.ts'

/** How a person signed in: by a link that was e-mailed, by a passkey, or by a link that the command line printed. */
export const signInMethods = ['link', 'passkey', 'cli-link'] as const
export type SignInMethod = (typeof signInMethods)[number]

/** Who caused an event: a key of an account, a person in the console, an operator at the command line, or the service itself. */
export type Actor =
  | { readonly kind: 'key'; readonly accountId: string; readonly keyId: string }
  /** `subjectId` is an account, or a member of the staff. */
  | {
      readonly kind: 'session'
      readonly subjectId: string
      readonly sessionId: string
      readonly method: SignInMethod
    }
  | { readonly kind: 'operator'; readonly name: string }
  | { readonly kind: 'system'; readonly name: string }

export type EventMetadata = {
  /** The request id (or the run of a command or reactor) that all events of one cause share. */
  readonly correlationId: string
  /** The event that a reactor answered, else null. */
  readonly causationId: string | null
  readonly actor: Actor
  /** When it was decided, ISO 8601 UTC; never less than the stream's last one, save where `continuesAt` says so. */
  readonly recordedAt: string
  /**
   * The time at which the stream goes on, where it had come to one that lies ahead (docs/decisions/0087). Such an event is
   * stored with this time as `recordedAt`, and its own as `decidedAt`.
   */
  readonly continuesAt?: string
}

/** Who caused an event, in one word: `key:key_…`, `session:acc_…:ses_…:passkey`, `operator:alice`, `system:completion`. */
export const actorText = (actor: Actor): string => {
  switch (actor.kind) {
    case 'key':
      return `key:${actor.keyId}`
    case 'session':
      return `session:${actor.subjectId}:${actor.sessionId}:${actor.method}`
    default:
      return `${actor.kind}:${actor.name}`
  }
}

/** Who asks, and under which request or run of a command: all events of one decision carry both. */
export type Cause = Pick<EventMetadata, 'actor' | 'correlationId'>

/** A fact as the domain says it: its name and its data, JSON values only. */
export type DomainEvent<Type extends string = string, Data = unknown> = {
  readonly type: Type
  readonly data: Data
}

/** A fact as it was read from the log: parsed, upcast, with its place. */
export type RecordedEvent<Event extends DomainEvent = DomainEvent> = Event & {
  readonly id: string
  readonly stream: StreamName
  readonly revision: number
  readonly position: number
  readonly metadata: EventMetadata
}

/**
 * One kind of event, declared once: its type (`EventOf`), what verification holds its data against, and its entry in
 * docs/events.md are all made from this. What reads the log for work does not validate: what was written was typed.
 */
export type EventDefinition<Type extends string = string, Data = unknown> = {
  readonly type: Type
  /** The streams that it stands in, by their form: `ledger-{account}`. */
  readonly stream: string
  /** What happened, in words. */
  readonly means: string
  readonly data: z.ZodType<Data>
}

/** An event with fields of its own. */
export const defineEvent = <const Type extends string, S extends Readonly<Record<string, z.ZodType>>>(
  type: Type,
  { stream, means, fields }: { readonly stream: string; readonly means: string; readonly fields: S },
): EventDefinition<Type, ShapeValue<S>> => ({
  type,
  stream,
  means,
  data: z.strictObject(fields) as unknown as z.ZodType<ShapeValue<S>>,
})

/** An event whose data is a schema by itself. */
export const defineEventOf = <const Type extends string, Data>(
  type: Type,
  {
    stream,
    means,
    data,
  }: { readonly stream: string; readonly means: string; readonly data: z.ZodType<Data> },
): EventDefinition<Type, Data> => ({ type, stream, means, data })

export type EventOf<F extends EventDefinition> = F extends EventDefinition
  ? DomainEvent<F['type'], z.infer<F['data']>>
  : never
