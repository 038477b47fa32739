import { z } from 'zod'
import type { ShapeValue } from './event-fields.ts'
import type { StreamName } from './streams.ts'

/** How a person signed in: by an e-mailed link, by a passkey, or by a link that the command line printed. */
export const signInMethods = ['link', 'passkey', 'cli-link'] as const
export type SignInMethod = (typeof signInMethods)[number]

/**
 * The cause of an event: an API key, a person in the console, an operator at the command line, or the service itself.
 */
export type Actor =
  | { readonly kind: 'key'; readonly accountId: string; readonly keyId: string }
  /** `subjectId` is the id of an account or of a staff member. */
  | {
      readonly kind: 'session'
      readonly subjectId: string
      readonly sessionId: string
      readonly method: SignInMethod
    }
  | { readonly kind: 'operator'; readonly name: string }
  | { readonly kind: 'system'; readonly name: string }

export type EventMetadata = {
  /** The id of the request, or of the run of a command or reactor. All events of one cause share it. */
  readonly correlationId: string
  /** The event that a reactor handled, else null. */
  readonly causationId: string | null
  readonly actor: Actor
  /** Time of the decision, ISO 8601 UTC. Without `continuesAt`, never before the last event of the stream. */
  readonly recordedAt: string
  /**
   * The time of the stream, if an earlier event of the stream is of the future (docs/decisions/0085). Such an event is
   * stored with this time as `recordedAt`, and with the time of its decision as `decidedAt`.
   */
  readonly continuesAt?: string
}

/** An actor as text: `key:key_…`, `session:acc_…:ses_…:passkey`, `operator:alice`, `system:completion`. */
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

/** The account of a key or of a person's session; null for operators, staff and the service. */
export const accountOf = (actor: Actor): string | null => {
  if (actor.kind === 'key') return actor.accountId
  return actor.kind === 'session' && actor.subjectId.startsWith('acc_') ? actor.subjectId : null
}

/** The actor, and the id of the request or run. All events of one decision have both. */
export type Cause = Pick<EventMetadata, 'actor' | 'correlationId'>

/** An event of the domain: its type and its data, JSON values only. */
export type DomainEvent<Type extends string = string, Data = unknown> = {
  readonly type: Type
  readonly data: Data
}

/** An event that was read from the log: parsed, upcast, with its stream, revision and position. */
export type RecordedEvent<Event extends DomainEvent = DomainEvent> = Event & {
  readonly id: string
  readonly stream: StreamName
  readonly revision: number
  readonly position: number
  readonly metadata: EventMetadata
}

/**
 * The definition of one kind of event: the source of its type (`EventOf`), of the schema for verification, and of its
 * entry in the dictionary. Other readers of the log do not validate events, because the writers are typed.
 */
export type EventDefinition<Type extends string = string, Data = unknown> = {
  readonly type: Type
  /** Pattern of the streams that contain it: `ledger-{account}`. */
  readonly stream: string
  /** Description of what happened. */
  readonly means: string
  readonly data: z.ZodType<Data>
}

/** Defines an event by its fields. */
export const defineEvent = <const Type extends string, S extends Readonly<Record<string, z.ZodType>>>(
  type: Type,
  { stream, means, fields }: { readonly stream: string; readonly means: string; readonly fields: S },
): EventDefinition<Type, ShapeValue<S>> => ({
  type,
  stream,
  means,
  data: z.strictObject(fields) as unknown as z.ZodType<ShapeValue<S>>,
})

/** Defines an event by the schema of its data. */
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
