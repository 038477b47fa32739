import type { StreamName } from '../../terms/streams.ts'

/** Who caused an event: a key of an account, an operator at the command line, or the service itself. */
export type Actor =
  | { readonly kind: 'key'; readonly accountId: string; readonly keyId: string }
  | { readonly kind: 'operator'; readonly name: string }
  | { readonly kind: 'system'; readonly name: string }

export type EventMetadata = {
  /** The request id (or the run of a command or reactor) that all events of one cause share. */
  readonly correlationId: string
  /** The event that a reactor answered, else null. */
  readonly causationId: string | null
  readonly actor: Actor
  /** When it was decided, ISO 8601 UTC; never less than the stream's last one. */
  readonly recordedAt: string
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
