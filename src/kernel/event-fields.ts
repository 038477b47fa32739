import { z } from 'zod'

/**
 * Schemas for the fields of events. A schema includes its description, unit and sign, so that types, validation and
 * documentation have one source (src/kernel/event.ts).
 */

/** The allowed sign of a number. */
export type Sign = 'above 0' | '0 or more' | 'either sign'

/** Properties of a schema besides its type. */
export type FieldMeta = {
  readonly description?: string
  /** The unit of a number, e.g. `micro-dollars`. */
  readonly unit?: string
  readonly sign?: Sign
  /** The time is not after the recording of its event. */
  readonly past?: true
  /** A name. The event dictionary documents the schema once under this name, for all fields that use it. */
  readonly id?: string
}

type Shape = Readonly<Record<string, z.ZodType>>
/** The type of the values of a shape. */
export type ShapeValue<S extends Shape> = Readonly<z.infer<z.ZodObject<S, z.core.$strict>>>

const described = <T extends z.ZodType>(schema: T, meta: FieldMeta): T => schema.meta({ ...meta })

/** The properties of a schema without its name, for a schema that is derived from it. */
const metaOf = (schema: z.ZodType): FieldMeta => {
  const { id: _, ...meta } = (schema.meta() ?? {}) as FieldMeta
  return meta
}

export const text = (description: string): z.ZodType<string> => described(z.string(), { description })

/** An id that Farebox creates: `prefix_…`. */
export const id = <Id extends string = string>(prefix: string, description: string): z.ZodType<Id> =>
  described(z.string().regex(new RegExp(`^${prefix}_`), `an id that begins with ${prefix}_`), {
    description,
  }) as unknown as z.ZodType<Id>

/** An id with an external format, or of one of several kinds. */
export const anyId = <Id extends string = string>(description: string): z.ZodType<Id> =>
  described(z.string().min(1), { description }) as unknown as z.ZodType<Id>

/** ISO 8601 UTC. */
export const time = (description: string): z.ZodType<string> =>
  described(z.iso.datetime(), { description, unit: 'ISO 8601 UTC' })

/** As `time`, but not after the recording of the event: a later time is of the future (docs/decisions/0085). */
export const pastTime = (description: string): z.ZodType<string> =>
  described(z.iso.datetime(), { description, unit: 'ISO 8601 UTC', past: true })

/** Lower-case hex of `bytes` bytes. */
export const hex = (bytes: number, description: string): z.ZodType<string> =>
  described(
    z
      .string()
      .regex(/^[0-9a-f]*$/)
      .length(2 * bytes),
    { description, unit: `hex, ${bytes} bytes` },
  )

/** A whole number, exact in JSON. */
export const integer = (unit: string, sign: Sign, description: string): z.ZodType<number> => {
  const schema =
    sign === 'above 0' ? z.int().positive() : sign === '0 or more' ? z.int().nonnegative() : z.int()
  return described(schema, { description, unit, sign })
}
export const micros = (sign: Sign, description: string): z.ZodType<number> =>
  integer('micro-dollars', sign, description)
export const cents = (sign: Sign, description: string): z.ZodType<number> =>
  integer('cents', sign, description)

/** A number that may have a fraction. */
export const number = (unit: string, sign: Sign, description: string): z.ZodType<number> => {
  const schema =
    sign === 'above 0' ? z.number().positive() : sign === '0 or more' ? z.number().nonnegative() : z.number()
  return described(schema, { description, unit, sign })
}

export const flag = (description: string): z.ZodType<boolean> => described(z.boolean(), { description })

export const oneOf = <const Value extends string>(
  values: readonly Value[],
  description: string,
): z.ZodType<Value> => described(z.enum(values), { description }) as unknown as z.ZodType<Value>

export const exactly = <const Value extends string | number>(
  value: Value,
  description: string,
): z.ZodType<Value> => described(z.literal(value), { description })

export const list = <Item extends z.ZodType>(
  item: Item,
  description: string,
): z.ZodType<readonly z.infer<Item>[]> => described(z.array(item), { description })

/** An object with these fields. */
export const group = <S extends Shape>(
  shape: S,
  description: string,
  name?: string,
): z.ZodType<ShapeValue<S>> =>
  described(
    z.strictObject(shape),
    name === undefined ? { description } : { description, id: name },
  ) as unknown as z.ZodType<ShapeValue<S>>

export const either = <const Options extends readonly z.ZodType[]>(
  options: Options,
  description: string,
): z.ZodType<z.infer<Options[number]>> =>
  described(z.union(options), { description }) as unknown as z.ZodType<z.infer<Options[number]>>

/** An object whose fields are documented elsewhere. */
export const objectOf = <Value>(description: string): z.ZodType<Value> =>
  described(z.record(z.string(), z.unknown()), { description }) as unknown as z.ZodType<Value>

/** Also allows null. The description explains the meaning of null. */
export const orNull = <T extends z.ZodType>(schema: T): z.ZodType<z.infer<T> | null> =>
  described(schema.nullable(), metaOf(schema)) as unknown as z.ZodType<z.infer<T> | null>

/** The field may be absent. */
export const orAbsent = <T extends z.ZodType>(schema: T): z.ZodExactOptional<T> =>
  described(z.exactOptional(schema), metaOf(schema))

/** A commitment that an upgrade added later. It proves the value only from this event on, not from its creation. */
export const adoptedCommitment = (to: string) =>
  hex(32, `SHA-256 over ${to} as it was in the vault when the service was upgraded, salted`)

/**
 * A commitment of an event to a value of the vault.
 * @param to the value, e.g. `the hash of the key`
 */
export const commitment = (to: string) =>
  orAbsent(
    hex(
      32,
      `SHA-256 over ${to} as stored in the vault, salted (docs/decisions/0074); absent in an event of an older release`,
    ),
  )
