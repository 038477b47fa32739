import { z } from 'zod'

/**
 * What the fields of events are declared with: a schema that carries its own description, unit and sign, so that types,
 * validation and documentation come from one place (src/kernel/event.ts).
 */

/** Which values a number may have. */
export type Sign = 'above 0' | '0 or more' | 'either sign'

/** What a schema says of itself besides its type. */
export type FieldMeta = {
  readonly description?: string
  /** What a number counts, e.g. `micro-dollars`. */
  readonly unit?: string
  readonly sign?: Sign
  /** A time that has come when its event is recorded. */
  readonly past?: true
  /** The name under which docs/events.md shows it once, for all fields that have it. */
  readonly id?: string
}

type Shape = Readonly<Record<string, z.ZodType>>
/** The value that a shape's fields come to. */
export type ShapeValue<S extends Shape> = Readonly<z.infer<z.ZodObject<S, z.core.$strict>>>

const described = <T extends z.ZodType>(schema: T, meta: FieldMeta): T => schema.meta({ ...meta })

/** What a schema says of itself, for one that is made of it: the name stays its own. */
const metaOf = (schema: z.ZodType): FieldMeta => {
  const { id: _, ...meta } = (schema.meta() ?? {}) as FieldMeta
  return meta
}

export const text = (description: string): z.ZodType<string> => described(z.string(), { description })

/** An id made here: `prefix_…`. */
export const id = <Id extends string = string>(prefix: string, description: string): z.ZodType<Id> =>
  described(z.string().regex(new RegExp(`^${prefix}_`), `an id that begins with ${prefix}_`), {
    description,
  }) as unknown as z.ZodType<Id>

/** An id whose form is somebody else's, or of which several kinds may stand here. */
export const anyId = <Id extends string = string>(description: string): z.ZodType<Id> =>
  described(z.string().min(1), { description }) as unknown as z.ZodType<Id>

/** ISO 8601 UTC. */
export const time = (description: string): z.ZodType<string> =>
  described(z.iso.datetime(), { description, unit: 'ISO 8601 UTC' })

/** As `time`, of what has happened when the event is recorded: a later one is of the future (docs/decisions/0072). */
export const pastTime = (description: string): z.ZodType<string> =>
  described(z.iso.datetime(), { description, unit: 'ISO 8601 UTC', past: true })

/** Lower-case hex of so many bytes. */
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

/** Fields of their own under one name. */
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

/** An object whose form is documented elsewhere. */
export const objectOf = <Value>(description: string): z.ZodType<Value> =>
  described(z.record(z.string(), z.unknown()), { description }) as unknown as z.ZodType<Value>

/** Null is a value: what it means stands in the description. */
export const orNull = <T extends z.ZodType>(schema: T): z.ZodType<z.infer<T> | null> =>
  described(schema.nullable(), metaOf(schema)) as unknown as z.ZodType<z.infer<T> | null>

/** The field may be left out. */
export const orAbsent = <T extends z.ZodType>(schema: T): z.ZodExactOptional<T> =>
  described(z.exactOptional(schema), metaOf(schema))

/** A commitment that an upgrade adopted: the value is vouched for from here on, not from its beginning. */
export const adoptedCommitment = (to: string) =>
  hex(32, `SHA-256 over ${to} as it was in the vault when the service was upgraded, salted`)

/** A commitment of an event to a value of the vault. @param to the value, e.g. `the hash of the key` */
export const commitment = (to: string) =>
  orAbsent(
    hex(
      32,
      `SHA-256 over ${to} as it stands in the vault, salted (docs/decisions/0074); absent in an event of an older release`,
    ),
  )
