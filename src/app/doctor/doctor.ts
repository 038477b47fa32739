import type { BareContext } from '../../platform/cli/cli-context.ts'
import { withContext } from '../../platform/cli/command.ts'
import type { CliOutput } from '../../platform/cli/output.ts'
import type { Config } from '../config.ts'
import { type Finding, guarded } from './finding.ts'
import { checkData, checkPayments, checkScrapers, checkServer, checkSessions } from './outside-checks.ts'

const marks = { ok: 'ok   ', note: 'note ', wrong: 'WRONG' } as const

const textOf = (findings: readonly Finding[]): string => {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const indent = ' '.repeat(marks.ok.length + width + 4)
  const lines = findings.map(
    ({ check, state, found, todo }) =>
      `${marks[state]}  ${check.padEnd(width)}  ${found}${todo === null ? '' : `\n${indent}${todo}`}`,
  )
  const count = findings.filter(({ state }) => state === 'wrong').length
  return `${lines.join('\n')}\n\n${count === 0 ? 'nothing is wrong' : `${count} of ${findings.length} checks found a problem`}`
}

/** Runs all checks. The command fails if any check finds something wrong. */
export const examine = async (bare: BareContext<Config>): Promise<CliOutput> => {
  const config = await bare.readSettings()
  const server = await checkServer(config)
  const findings: Finding[] = [
    { check: 'data directory', ...(await checkData(config)) },
    { check: 'server', ...server },
    { check: 'payments', ...checkPayments(config) },
    { check: 'scrapers', ...checkScrapers(config) },
    ...(config.databaseUrl === null ? [] : await checkSessions(config.databaseUrl)).map((outcome) => ({
      check: 'sessions',
      ...outcome,
    })),
  ]
  // Without dedicated sessions the locks and reads of a command do not work.
  if (findings.every(({ check, state }) => state !== 'wrong' || check === 'server'))
    findings.push(
      ...(await guarded('database', () =>
        withContext(bare, async (context) => {
          const { checkInside } = await import('./checks.ts')
          return checkInside({ ...context, config }, server.state === 'ok')
        }),
      )),
    )
  const healthy = findings.every(({ state }) => state !== 'wrong')
  return { json: { healthy, findings }, text: textOf(findings), failed: !healthy }
}
