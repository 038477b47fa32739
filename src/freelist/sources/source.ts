import { z } from 'zod'
import { parseTarget, TargetRefused } from '../../platform/outgoing/target.ts'

/** The forms that a feed may have. */
export const feedFormats = ['text', 'json'] as const
export type FeedFormat = (typeof feedFormats)[number]

/** One list of candidates that is read again and again. */
export type Source = {
  readonly id: string
  readonly from: { readonly url: string } | { readonly file: string }
  readonly format: FeedFormat
  readonly everyMinutes: number
}

const mostSources = 1_000

/** Ids of the sandbox's feeds begin with it. */
export const sandboxPrefix = 'sandbox-'

export const isOfSandbox = (id: string): boolean => id.startsWith(sandboxPrefix)

const isPublicHttps = (text: string): boolean => {
  try {
    parseTarget(text, { allowLoopback: false })
    return true
  } catch (error) {
    if (error instanceof TargetRefused) return false
    throw error
  }
}

const Entry = z
  .strictObject({
    id: z
      .string()
      .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, 'an id of 1 to 64 of a-z 0-9 . _ -')
      .refine((id) => !isOfSandbox(id), `an id that does not begin with ${sandboxPrefix}`),
    url: z.string().refine(isPublicHttps, 'an https address of a public host').optional(),
    file: z.string().min(1, 'the path of a file').optional(),
    format: z.enum(feedFormats, `one of ${feedFormats.join(', ')}`).default('text'),
    every_minutes: z.int('whole minutes from 1 to 10080').min(1).max(10_080).default(60),
  })
  .refine(({ url, file }) => (url === undefined) !== (file === undefined), 'either url or file')

const File = z.strictObject({
  sources: z
    .array(Entry)
    .max(mostSources, `at most ${mostSources} sources`)
    .refine((all) => new Set(all.map(({ id }) => id)).size === all.length, 'ids that differ'),
})

/** The file names feeds wrongly; the message names each place. */
export class SourcesRefused extends Error {
  override readonly name = 'SourcesRefused'
}

/**
 * The feeds of a configuration file: `{"sources": [{"id", "url" or "file", "format", "every_minutes"}]}`.
 * @throws SourcesRefused
 */
export const parseSources = (text: string): readonly Source[] => {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new SourcesRefused(`it is not JSON: ${(error as Error).message}`)
  }
  const parsed = File.safeParse(value)
  if (!parsed.success)
    throw new SourcesRefused(
      parsed.error.issues
        .map(({ path, message }) => `${path.join('.') || 'the file'}: ${message}`)
        .join('; '),
    )
  return parsed.data.sources.map(({ id, url, file, format, every_minutes }) => ({
    id,
    from: url === undefined ? { file: file ?? '' } : { url },
    format,
    everyMinutes: every_minutes,
  }))
}
