import { z } from 'zod'

type Enumeration<Word extends string> = z.ZodEnum<{ [Key in Word]: Key }>

/** By name: zod takes one schema for each. */
const enumerations = new Map<string, Enumeration<string>>()

/**
 * An enumeration with a name in the interface description, for one that several objects or operations use. Another one
 * is named after its object and field.
 */
export const namedEnum = <const Word extends string>(
  name: string,
  words: readonly Word[],
): Enumeration<Word> => {
  const known = enumerations.get(name) ?? z.enum(words).meta({ id: name })
  if (known.options.join() !== words.join()) throw new Error(`two enumerations have the name ${name}`)
  enumerations.set(name, known)
  return known as Enumeration<Word>
}
