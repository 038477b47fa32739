/** A sum of safe integers that may pass them: added as numbers, carried into a bigint when they would. */
export type Sum = { add(value: number): void; total(): bigint }

export const createSum = (): Sum => {
  let carried = 0n
  let small = 0
  return {
    add: (value) => {
      if (small > Number.MAX_SAFE_INTEGER - value) {
        carried += BigInt(small)
        small = 0
      }
      small += value
    },
    total: () => carried + BigInt(small),
  }
}
