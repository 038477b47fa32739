import type { DeferredLine } from '../../domain/finance/deferred-revenue.ts'
import { csv } from '../../kernel/csv.ts'
import { amountWriter, plainDollars } from '../../kernel/money.ts'
import { table } from '../../platform/cli/output.ts'
import { type Span, spanJson, spanText } from './trial-balance.ts'

const dayMs = 86_400_000

export const totalDeferred = (lines: readonly DeferredLine[]): bigint =>
  lines.reduce((sum, { deferredMicros }) => sum + deferredMicros, 0n)

/** Days with one decimal. */
export const daysText = ({ remainingMs }: DeferredLine): string => (remainingMs / dayMs).toFixed(1)
/** Gigabytes of 1,000,000,000 bytes, with three decimals. */
export const gigabytesText = ({ unusedBytes }: DeferredLine): string => (unusedBytes / 1e9).toFixed(3)

export const deferredJson = (
  span: Span,
  lines: readonly DeferredLine[],
  listed: readonly DeferredLine[] = lines,
) => {
  const { after: _, ...end } = spanJson(span)
  return {
    ...end,
    deferredMicros: String(totalDeferred(lines)),
    products: listed.map(({ deferredMicros, remainingMs, ...line }) => ({
      ...line,
      deferredMicros: String(deferredMicros),
      remainingSeconds: Math.round(remainingMs / 1_000),
    })),
  }
}

export const deferredCsv = (lines: readonly DeferredLine[]): string =>
  csv(
    ['product', 'orders', 'deferred', 'remaining_days', 'unused_gb'],
    lines.map((line) => [
      line.productId,
      line.orders,
      plainDollars(line.deferredMicros),
      daysText(line),
      gigabytesText(line),
    ]),
  )

export const deferredText = (span: Span, lines: readonly DeferredLine[]): string => {
  const total = totalDeferred(lines)
  const write = amountWriter([total, ...lines.map(({ deferredMicros }) => deferredMicros)])
  const rows = table(
    lines,
    {
      product: 'productId',
      orders: 'orders',
      deferred: ({ deferredMicros }) => write(deferredMicros),
      'days left': daysText,
      'unused GB': gigabytesText,
    },
    'nothing',
  )
  return `sold and not delivered, US dollars, ${spanText(span, false)}\n\n${rows}\n\ntotal ${write(total)}`
}
