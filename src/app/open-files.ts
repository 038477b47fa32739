import { readFile } from 'node:fs/promises'
import { StartRefused } from '../platform/postgres/errors.ts'

/** What a service without load opens, with its sandbox, and a reserve. */
const minOpenFiles = 512

/** The limit of open files of this process, from Linux; null: unknown. */
export const readOpenFilesLimit = async (): Promise<number | null> => {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => '')
  const limitMatch = /^Max open files\s+(\d+)/m.exec(limits)
  return limitMatch === null ? null : Number(limitMatch[1])
}

/** @throws StartRefused: with a lower limit the start fails at any file or socket */
export const checkOpenFiles = (limit: number | null): void => {
  if (limit !== null && limit < minOpenFiles)
    throw new StartRefused(
      `a process may open ${limit} files and sockets here, and Farebox needs at least ${minOpenFiles} (in production more than FAREBOX_CONNECTIONS): raise the limit with "ulimit -n", or LimitNOFILE= of systemd`,
    )
}
