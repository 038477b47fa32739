import { readFile } from 'node:fs/promises'
import { text as textOf } from 'node:stream/consumers'
import { InvalidArgumentError } from 'commander'
import type { z } from 'zod'
import type { Tier } from '../../domain/catalog/product.ts'
import type { PriceLimits } from '../../domain/resellers/events.ts'
import {
  maxDiscountBp,
  maxMarkupMillionths,
  maxRetailMicros,
  maxRetailTiers,
} from '../../domain/resellers/limits.ts'
import { isHttpsAddress } from '../../kernel/formats.ts'
import { parseDecimal, parseDollarsToMicros, parsePercentToBasisPoints } from '../../kernel/money.ts'
import { CliMisuse } from '../../platform/cli/output.ts'

/** The longest name on a reseller's pay pages, characters. */
export const maxMerchantName = 64

/** Whether the name is valid for pay pages: printable characters, no space at the ends. */
export const isMerchantName = (text: string): boolean =>
  /^[^\p{C}]{1,64}$/u.test(text) && text.trim() === text

const maxAddress = 2_000

/** An https URL for customers in the form of the URL standard; null for anything else. */
export const shopAddressOf = (text: string): string | null =>
  text.length <= maxAddress && isHttpsAddress(text) ? new URL(text).href : null

/** Parses `12.5` to basis points. */
export const parseDiscount = (text: string): number => {
  const basisPoints = parsePercentToBasisPoints(text)
  if (basisPoints !== null && basisPoints <= maxDiscountBp) return basisPoints
  throw new InvalidArgumentError(
    'It must be a percentage from 0 to 99.99 with at most two decimals, e.g. 12.5.',
  )
}

/** Parses `1.30` to millionths. */
export const parseMarkup = (text: string): number => {
  const millionths = parseDecimal(text, 6)
  if (millionths !== null && millionths > 0 && millionths <= maxMarkupMillionths) return millionths
  throw new InvalidArgumentError(
    'It must be a multiple of the list price above 0 and up to 100 with at most six decimals, e.g. 1.30.',
  )
}

/** Parses `1.00-3.00` to millionths. */
export const parsePriceLimits = (text: string): PriceLimits => {
  const [fromMillionths = 0, toMillionths = 0, ...rest] = text
    .split('-')
    .map((part) => parseDecimal(part.trim(), 6) ?? 0)
  if (
    fromMillionths > 0 &&
    fromMillionths <= toMillionths &&
    toMillionths <= maxMarkupMillionths &&
    rest.length === 0
  )
    return { fromMillionths, toMillionths }
  throw new InvalidArgumentError(
    'It must be two multiples of the list price above 0 and up to 100, the lower one first, e.g. 1.00-3.00.',
  )
}

/** Parses `3.50` to micro-dollars. */
export const parsePrice = (text: string): number => {
  const micros = parseDollarsToMicros(text)
  if (micros !== null && micros > 0 && micros <= maxRetailMicros) return micros
  throw new InvalidArgumentError(
    'It must be dollars for one unit, above 0 and up to 10000 with at most six decimals, e.g. 3.50.',
  )
}

/** Checks the tiers of a price: the first is from 1 on, and each later one from a higher quantity on. */
export const checkTiers = (tiers: readonly Tier[]): readonly Tier[] => {
  const isAscending = tiers.every(({ from }, index) =>
    index === 0 ? from === 1 : from > (tiers[index - 1]?.from ?? 0),
  )
  if (isAscending && tiers.length > 0 && tiers.length <= maxRetailTiers) return tiers
  throw new InvalidArgumentError(
    `The prices must begin at the quantity 1 and then at higher ones, with at most ${maxRetailTiers} prices.`,
  )
}

/** Parses `3.50`, or prices by quantity such as `1:3.50,10:3.20`. */
export const parsePriceTiers = (text: string): readonly Tier[] =>
  checkTiers(
    text.split(',').map((part) => {
      const [price = '', from = '1'] = part.trim().split(':').reverse()
      return { from: Number(from), unitPriceMicros: parsePrice(price) }
    }),
  )

/** Parses a URL for customers. */
export const parseHttpsUrl = (text: string): string => {
  const address = shopAddressOf(text)
  if (address !== null) return address
  throw new InvalidArgumentError(
    'It must start with https:// and a host, without a user name, e.g. https://shop.example/.',
  )
}

export const parseMerchantName = (text: string): string => {
  if (isMerchantName(text)) return text
  throw new InvalidArgumentError('It must be 1 to 64 printable characters without a space at its ends.')
}

/** Comma-separated texts, none of them empty. */
export const parseNames = (text: string): readonly string[] => {
  const items = text.split(',').map((item) => item.trim())
  if (items.every((item) => item !== '')) return [...new Set(items)]
  throw new InvalidArgumentError('It must be one or more names with commas between.')
}

/** Comma-separated alpha-3 codes. */
export const parseCountries = (text: string): readonly string[] =>
  parseNames(text).map((code) => code.toUpperCase())

/** Comma-separated whole days. */
export const parsePeriods = (text: string): readonly number[] => {
  const items = parseNames(text)
  if (items.every((item) => /^\d{1,5}$/.test(item))) return items.map(Number)
  throw new InvalidArgumentError('It must be whole numbers of days with commas between, e.g. 30,90.')
}

/**
 * The text of a file, or of standard input for `-`. Secrets are no command arguments, because other users can read
 * those.
 */
const read = async (file: string): Promise<string> => {
  try {
    return file === '-' ? await textOf(process.stdin) : await readFile(file, 'utf8')
  } catch (error) {
    throw new CliMisuse(`${file} cannot be read: ${(error as Error).message}`)
  }
}

/**
 * Credentials from a JSON file (`-`: standard input), checked with `schema`. Refusals name fields, never their values.
 * @throws CliMisuse
 */
export const readCredentials = async <Schema extends z.ZodType>(
  file: string,
  schema: Schema,
  presetFields: Readonly<Record<string, string>>,
  acceptedForm: string,
): Promise<z.output<Schema>> => {
  const where = file === '-' ? 'standard input' : file
  let json: unknown
  try {
    json = JSON.parse(await read(file))
  } catch (error) {
    if (error instanceof CliMisuse) throw error
    throw new CliMisuse(`${where} is not JSON; it must be ${acceptedForm}`)
  }
  const isObject = typeof json === 'object' && json !== null && !Array.isArray(json)
  const checked = schema.safeParse(isObject ? Object.assign({}, json, presetFields) : json)
  if (checked.success) return checked.data
  const invalidPaths = checked.error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys' ? issue.keys : [issue.path.join('.') || 'the whole'],
  )
  throw new CliMisuse(
    `${where} does not fit (${[...new Set(invalidPaths)].join(', ')}); it must be ${acceptedForm}`,
  )
}
