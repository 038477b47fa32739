import type { z } from 'zod'
import { canonicalJson } from '../../kernel/canonical.ts'
import { counted } from '../../kernel/counted.ts'
import { sha256 } from '../../kernel/hash.ts'
import type { Problem } from './problem.ts'
import type { ProductTerms } from './product.ts'
import { catalogProblems } from './rules.ts'
import { catalogFile } from './schema.ts'

/** A catalogue file that was checked as a whole. */
export type CatalogFile = { readonly digest: string; readonly products: readonly ProductTerms[] }

export type ParsedCatalog =
  | { readonly ok: true; readonly file: CatalogFile }
  | { readonly ok: false; readonly problems: readonly Problem[] }

const pathText = (path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, step) =>
      typeof step === 'number' ? `${text}[${step}]` : text === '' ? String(step) : `${text}.${String(step)}`,
    '',
  )

const valueAt = (root: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>(
    (value, step) => (typeof value === 'object' && value !== null ? Reflect.get(value, step) : undefined),
    root,
  )

const sized = (size: number | bigint, origin: string): string =>
  origin === 'string' ? counted(size, 'character') : String(size)

const expectedOf = (issue: z.core.$ZodIssue): string => {
  switch (issue.code) {
    case 'invalid_type':
      return issue.expected === 'int' ? 'a whole number' : `of type ${issue.expected}`
    case 'invalid_value':
      return issue.values.length === 1
        ? JSON.stringify(issue.values[0])
        : `one of ${issue.values.map(String).join(', ')}`
    case 'too_small':
      return `at least ${sized(issue.minimum, issue.origin)}`
    case 'too_big':
      return `at most ${sized(issue.maximum, issue.origin)}`
    case 'unrecognized_keys':
      return `no field ${issue.keys.join(', ')}`
    case 'invalid_union':
      return 'shape one of gateway_gb, gateway_time, addresses, addresses_mobile'
    default:
      return issue.message
  }
}

/** SHA-256, lower-case hex, of the catalogue's canonical JSON: layout and order of fields do not change it. */
export const catalogDigest = (products: readonly ProductTerms[]): string =>
  sha256(canonicalJson({ products })).toString('hex')

/**
 * Checks the text of a catalogue file as a whole. Answers its products with every default filled in and its digest, or
 * every problem that was found, each with path, value and what is expected.
 */
export const parseCatalog = (text: string): ParsedCatalog => {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    return { ok: false, problems: [{ path: '', value: (error as Error).message, expected: 'a JSON file' }] }
  }
  const parsed = catalogFile.safeParse(json)
  if (!parsed.success)
    return {
      ok: false,
      problems: parsed.error.issues.map((issue) => ({
        path: pathText(issue.path),
        value: valueAt(json, issue.path),
        expected: expectedOf(issue),
      })),
    }
  const { products } = parsed.data
  const problems = catalogProblems(products)
  return problems.length > 0
    ? { ok: false, problems }
    : { ok: true, file: { digest: catalogDigest(products), products } }
}
