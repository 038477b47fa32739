import type { Denied, Spending } from '../ports.ts'

/** Takes all of so many bytes or none. @returns whether they were taken */
export const takeWhole = (spending: Spending, bytes: number, direction: 'up' | 'down'): boolean => {
  const granted = spending.take(bytes, direction)
  if (granted === bytes) return true
  if (granted > 0) spending.giveBack(granted, direction)
  return false
}

/** So often what `more` promised may have been taken by others. */
const maxTries = 100

/** @returns null when all of the bytes were taken, or why none were */
export const payWhole = async (
  spending: Spending,
  bytes: number,
  direction: 'up' | 'down',
): Promise<Denied | null> => {
  for (let tries = 0; !takeWhole(spending, bytes, direction); tries++) {
    const why = await spending.more(bytes, bytes)
    if (why !== null) return why
    if (tries === maxTries) throw new Error('the budget promised more and gave nothing')
  }
  return null
}
