import { CsvError, parse } from 'csv-parse/sync'
import type { DailyFormat } from './journal-formats.ts'

/** An account of the other accounting system. */
export type TargetAccount = {
  /** The code of the account in Xero, or its full name in QuickBooks. */
  readonly code: string
  /** The name of the tax rate in Xero; null for QuickBooks. */
  readonly taxRate: string | null
  /** The accounts of the books that are mapped to it, in the order of the file. */
  readonly accounts: readonly string[]
}

export type AccountMapping = {
  /** In the order of the file. */
  readonly targets: readonly TargetAccount[]
  /** The target of an account of the books: that of the longest mapped name above it, or null. */
  targetOf(account: string): TargetAccount | null
}

/** The file is not a valid mapping. The message does not have the file's name. */
export class MappingProblem extends Error {
  override readonly name = 'MappingProblem'
}

const headings: Readonly<Record<DailyFormat, readonly string[]>> = {
  xero: ['account', 'code', 'tax_rate'],
  quickbooks: ['account', 'name'],
}

type MappingRow = { readonly record: readonly string[]; readonly info: { readonly lines: number } }

const rowsOf = (text: string): readonly MappingRow[] => {
  try {
    return parse(text, {
      bom: true,
      trim: true,
      skip_empty_lines: true,
      info: true,
    }) as unknown as MappingRow[]
  } catch (error) {
    if (error instanceof CsvError) throw new MappingProblem(error.message)
    throw error
  }
}

/**
 * Parses a mapping: CSV with the columns `account,code,tax_rate` for Xero and `account,name` for QuickBooks. A line also
 * maps the accounts below its account.
 * @throws MappingProblem
 */
export const parseMapping = (text: string, format: DailyFormat): AccountMapping => {
  const heading = headings[format].join(',')
  const [first, ...rows] = rowsOf(text)
  if (first?.record.join(',') !== heading) throw new MappingProblem(`its first line must be ${heading}`)
  const targets = new Map<string, TargetAccount & { readonly accounts: string[] }>()
  const byAccount = new Map<string, TargetAccount>()
  for (const { record, info } of rows) {
    const [account = '', code = '', taxRate = null] = record
    if (record.includes('')) throw new MappingProblem(`line ${info.lines} has an empty cell`)
    if (byAccount.has(account)) throw new MappingProblem(`line ${info.lines} maps ${account} again`)
    const key = JSON.stringify([code, taxRate])
    const target = targets.get(key) ?? { code, taxRate, accounts: [] }
    target.accounts.push(account)
    targets.set(key, target)
    byAccount.set(account, target)
  }
  return {
    targets: [...targets.values()],
    targetOf: (account) => {
      const parts = account.split(':')
      for (let length = parts.length; length > 0; length -= 1) {
        const target = byAccount.get(parts.slice(0, length).join(':'))
        if (target !== undefined) return target
      }
      return null
    },
  }
}
