import { readFileSync } from 'node:fs'
import { every } from '../kernel/every.ts'

const everyMs = 200

/** The parent of a process, or null when that cannot be told. */
const parentOf = (pid: number): number | null => {
  try {
    // proc_pid_stat(5): the name stands in parentheses and may hold anything; the state and the parent follow it.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    return null
  }
}

/** Whether a process is npm itself: it puts what it runs into its title, `npm start` or `npm exec farebox`. */
const isNpm = (pid: number): boolean => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith('npm')
  } catch {
    return false
  }
}

/**
 * Calls back when npm, which started this process, mostly through a shell, is gone: it hands no SIGHUP on, and killed with -9 no signal at all,
 * and a server that nobody sees would hold the port and the data against the next `npm start`. Without npm nothing is
 * watched.
 */
export const onNpmExit = (environment: NodeJS.ProcessEnv, gone: () => void): void => {
  if (environment.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  // Some shells put the command in their own place: then npm is the parent, and who started npm may end before it.
  const grandparent = isNpm(parent) ? null : parentOf(parent)
  const stop = every(everyMs, () => {
    if (process.ppid === parent && (grandparent === null || parentOf(parent) === grandparent)) return
    stop()
    gone()
  })
}
