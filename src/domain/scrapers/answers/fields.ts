import type { AnswerField, FieldType, JsonValue, Variation } from '../scraper.ts'

/** A field without its name. */
export type Field = Omit<AnswerField, 'name'>
/** The fields of an object, by name. */
export type Shape = Readonly<Record<string, Field>>
/** The shapes of a platform's answers, by operation. */
export type Answers = Readonly<Record<string, Shape>>

export const named = (shape: Shape): readonly AnswerField[] =>
  Object.entries(shape).map(([name, field]) => ({ name, ...field }))

const leaf =
  <Example extends JsonValue>(type: FieldType, variation: Variation, ownUnit: string | null = null) =>
  (meaning: string, example: Example, unit: string | null = ownUnit): Field => ({
    type,
    meaning,
    unit,
    example,
    variation,
    fields: [],
  })

/** A text by a person, such as a name or a comment. */
export const text = leaf<string>('string', 'text')
/** A text of the platform: a word of a list, a code, a formatted number. */
export const word = leaf<string>('string', 'none')
export const number = leaf<number>('number', 'none')
export const flag = leaf<boolean>('boolean', 'none')
/** A value whose type differs between answers. */
export const mixed = leaf<string | number | null>('any', 'none')
export const texts = leaf<readonly string[]>('string[]', 'text')
export const words = leaf<readonly string[]>('string[]', 'none')
export const numbers = leaf<readonly number[]>('number[]', 'none')
/** A list whose entries are not known. */
export const entries = (meaning: string): Field => leaf<readonly never[]>('array', 'none')(meaning, [])

/** `things`: such as `likes`. */
export const count = (things: string, example: number): Field => number(`Number of ${things}`, example)
/** A count that the platform sends as a text. */
export const countText = (things: string, example: string): Field => word(`Number of ${things}`, example)

/** `thing`: such as `the post`. */
export const id = (thing: string, example = '7000000000000000001'): Field => ({
  ...word(`Id of ${thing}`, example),
  variation: 'id',
})
/** An id that the platform sends as a number. */
export const idNumber = (thing: string, example = 1_000_001): Field => ({
  ...number(`Id of ${thing}`, example),
  variation: 'id',
})

/** `path`: that of the example. */
export const link = (meaning: string, path: string): Field => word(meaning, `https://example.com/${path}`)
export const links = (meaning: string, path: string): Field => words(meaning, [`https://example.com/${path}`])
export const picture = (meaning: string): Field => link(meaning, 'picture.jpg')
export const media = (meaning: string): Field => link(meaning, 'video.mp4')

export const isoTime = (meaning: string): Field => word(meaning, '2026-01-31T12:00:00.000Z', 'ISO 8601')
export const unixTime = (meaning: string): Field => number(meaning, 1_769_860_800, 'seconds since 1970')
export const seconds = leaf<number>('number', 'none', 'seconds')
export const milliseconds = leaf<number>('number', 'none', 'milliseconds')
export const pixels = leaf<number>('number', 'none', 'pixels')

/** The position of the next page, as a text. */
export const position = (example: string): Field => word(`Position of the next page: ${fromAnswer}`, example)
/** The position of the next page, as a number. */
export const positionNumber = (example: number): Field =>
  number(`Position of the next page: ${fromAnswer}`, example)
const fromAnswer = '`nextCursor` has it'

const nested =
  (type: 'object' | 'object[]') =>
  (meaning: string, shape: Shape): Field => ({
    type,
    meaning,
    unit: null,
    example: null,
    variation: 'none',
    fields: named(shape),
  })

export const object = nested('object')
/** A list of objects. */
export const list = nested('object[]')

/** The width and height of a picture or video. */
export const size = { width: pixels('Width', 720), height: pixels('Height', 1280) }
/** Pictures in several sizes. */
export const pictures = (meaning: string): Field =>
  list(meaning, { url: picture('Link to the picture'), ...size })
