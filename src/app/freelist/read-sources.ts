import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { parseSources, type Source, SourcesRefused, sandboxPrefix } from '../../freelist/sources/source.ts'
import { StartRefused } from '../../platform/postgres/start-refused.ts'

/**
 * The feeds of FAREBOX_FREELIST_SOURCES; files in it count from the folder that it lies in.
 * @throws StartRefused when it cannot be read or is wrong
 */
export const readSources = async (path: string | null): Promise<readonly Source[]> => {
  if (path === null) return []
  try {
    return parseSources(await readFile(path, 'utf8')).map((source) =>
      'file' in source.from
        ? { ...source, from: { file: resolve(dirname(path), source.from.file) } }
        : source,
    )
  } catch (error) {
    const why =
      error instanceof SourcesRefused || (error as NodeJS.ErrnoException).code
        ? (error as Error).message
        : null
    if (why === null) throw error
    throw new StartRefused(`FAREBOX_FREELIST_SOURCES: ${path}: ${why}`, { cause: error })
  }
}

/** What a sandbox at this address serves. */
export const sandboxSources = (baseUrl: string): readonly Source[] =>
  (['text', 'json'] as const).map((format) => ({
    id: `${sandboxPrefix}${format}`,
    from: { url: `${baseUrl}/_sandbox/freelist/proxies.${format === 'text' ? 'txt' : 'json'}` },
    format,
    everyMinutes: 1,
  }))
