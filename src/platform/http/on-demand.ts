/** Makes a value when it is asked for first, and once; a failure is forgotten, so that the next one tries again. */
export const onDemand = <Value>(make: () => Promise<Value>): (() => Promise<Value>) => {
  let made: Promise<Value> | null = null
  return () => {
    made ??= make().catch((error) => {
      made = null
      throw error
    })
    return made
  }
}
