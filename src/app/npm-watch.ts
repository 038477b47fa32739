import { readFileSync } from 'node:fs'
import { every } from '../kernel/every.ts'

const everyMs = 200

/** The parent of a process; null if it is unknown. */
const parentOf = (pid: number): number | null => {
  try {
    // proc_pid_stat(5): the name is in parentheses and may contain any character; the state and the parent follow it.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    return null
  }
}

/** Whether a process is npm itself. npm sets its title to the command, such as `npm start` or `npm exec farebox`. */
const isNpm = (pid: number): boolean => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith('npm')
  } catch {
    return false
  }
}

/**
 * Calls `onNpmEnd` when the npm that started this process, mostly through a shell, has ended. npm does not forward
 * SIGHUP, and a kill with -9 sends no signal at all. An orphaned server would block the port and the data for the next
 * `npm start`. Does nothing if npm did not start this process.
 */
export const onNpmExit = (environment: NodeJS.ProcessEnv, onNpmEnd: () => void): void => {
  if (environment.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  // Some shells replace themselves with the command. Then npm is the parent, and its own parent may end earlier.
  const grandparent = isNpm(parent) ? null : parentOf(parent)
  const stop = every(everyMs, () => {
    if (process.ppid === parent && (grandparent === null || parentOf(parent) === grandparent)) return
    stop()
    onNpmEnd()
  })
}
