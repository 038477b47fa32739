import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { promisify } from 'node:util'

const run = promisify(execFile)
const maxBuffer = 256 << 20

/** Whether a program is installed; if not, the test says so and is skipped. */
export const needs = async (t: TestContext, program: string, debianPackage: string): Promise<boolean> => {
  try {
    await run(program, ['--version'])
    return true
  } catch {
    t.skip(`${program} is not installed, so nothing was checked: apt-get install ${debianPackage}`)
    return false
  }
}

const micros = (amount: string): bigint => {
  const [, sign, whole, decimals = ''] = /^(-?)(\d+)(?:\.(\d{1,6}))? USD$/.exec(amount.trim()) ?? []
  if (whole === undefined) throw new Error(`${amount} is no amount of dollars`)
  const value = BigInt(whole) * 1_000_000n + BigInt(decimals.padEnd(6, '0'))
  return sign === '-' ? -value : value
}

const rowsOf = (csv: string): readonly (readonly string[])[] =>
  csv
    .trim()
    .split('\n')
    .slice(1)
    .map((line) =>
      line
        .trim()
        .split(',')
        .map((cell) => cell.replaceAll('"', '').trim()),
    )

/** hledger's own balances by its account names; it checks assertions, declared accounts and commodities first. */
export const hledgerBalances = async (path: string): Promise<ReadonlyMap<string, bigint>> => {
  await run('hledger', ['-f', path, 'check', '--strict', 'ordereddates'], { maxBuffer })
  const args = ['-f', path, 'balance', '--flat', '--empty', '--no-total', '-O', 'csv']
  const { stdout } = await run('hledger', args, { maxBuffer })
  return new Map(
    rowsOf(stdout).map(([name = '', amount = '']) => [name, amount === '0' ? 0n : micros(amount)]),
  )
}

/**
 * beancount's own balances by our book and account (`{book} {account}`), which the metadata of each account
 * contains.
 */
export const beancountBalances = async (path: string): Promise<ReadonlyMap<string, bigint>> => {
  await run('bean-check', [path], { maxBuffer })
  const ours = new Map<string, string>()
  const opened = /^\S+ open (\S+) USD\n {2}account: "(.*)"\n {2}book: "(.*)"$/gm
  for (const [, name = '', account, book] of readFileSync(path, 'utf8').matchAll(opened))
    ours.set(name, `${book}|${account}`)
  const query = 'select account, sum(position) as balance group by account order by account'
  const { stdout } = await run('bean-query', ['-f', 'csv', path, query], { maxBuffer })
  return new Map(
    rowsOf(stdout).map(([name = '', amount = '']) => [
      ours.get(name) ?? name,
      amount === '' ? 0n : micros(amount),
    ]),
  )
}
