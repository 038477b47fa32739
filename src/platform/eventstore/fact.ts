import { z } from 'zod'
import type { ShapeValue } from '../../terms/fields.ts'
import type { DomainEvent } from './event.ts'

/**
 * One kind of event, declared once: its type (`EventOf`), what verification holds its data against, and its entry in
 * docs/events.md are all made from this. What reads the log for work does not validate: what was written was typed.
 */
export type Fact<Type extends string = string, Data = unknown> = {
  readonly type: Type
  /** The streams that it stands in, by their form: `ledger-{account}`. */
  readonly stream: string
  /** What happened, in words. */
  readonly means: string
  readonly data: z.ZodType<Data>
}

/** An event with fields of its own. */
export const fact = <const Type extends string, S extends Readonly<Record<string, z.ZodType>>>(
  type: Type,
  { stream, means, fields }: { readonly stream: string; readonly means: string; readonly fields: S },
): Fact<Type, ShapeValue<S>> => ({
  type,
  stream,
  means,
  data: z.strictObject(fields) as unknown as z.ZodType<ShapeValue<S>>,
})

/** An event whose data is a schema by itself. */
export const factOf = <const Type extends string, Data>(
  type: Type,
  {
    stream,
    means,
    data,
  }: { readonly stream: string; readonly means: string; readonly data: z.ZodType<Data> },
): Fact<Type, Data> => ({ type, stream, means, data })

export type EventOf<F extends Fact> = F extends Fact ? DomainEvent<F['type'], z.infer<F['data']>> : never
