import { readFileSync } from 'node:fs'

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

/**
 * Calls back when npm, which started this process through a shell, is gone: killed with -9 it can hand no signal on,
 * and a server that nobody sees would hold the port and the data against the next `npm start`. Without npm nothing is
 * watched.
 */
export const onNpmGone = (environment: NodeJS.ProcessEnv, gone: () => void): void => {
  if (environment.npm_lifecycle_event === undefined) return
  const shell = process.ppid
  const npm = parentOf(shell)
  const timer = setInterval(() => {
    if (process.ppid === shell && parentOf(shell) === npm) return
    clearInterval(timer)
    gone()
  }, everyMs)
  timer.unref()
}
