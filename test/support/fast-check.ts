import fc from 'fast-check'

/** How long a failure is made smaller, from FAREBOX_TEST_SHRINK, seconds; 0: the property ends with its first failure. */
const shrinkSeconds = Number(process.env.FAREBOX_TEST_SHRINK ?? 0)

// By itself fast-check makes lists of ten entries at most, five on the average, whatever `maxLength` says: histories long
// enough to matter would never be played.
fc.configureGlobal({
  ...fc.readConfigureGlobal(),
  defaultSizeToMaxWhenMaxSpecified: true,
  ...(shrinkSeconds === 0 ? { endOnFailure: true } : { interruptAfterTimeLimit: shrinkSeconds * 1_000 }),
})

/**
 * The runs of a property.
 * @param all in `npm run test:all`, and when a file is chosen; `npm test` does a quarter of them
 * @param soak in `npm run test:soak`
 */
export const runs = (all: number, soak = 20 * all): number => {
  const set = process.env.FAREBOX_TEST_SET
  if (set === 'soak') return soak
  return set === 'fast' ? Math.ceil(all / 4) : all
}

/** One character of a text, of all of Unicode. `unit: 'binary'` is the same, and takes each process a second to make. */
export const anyChar = fc
  .integer({ min: 0, max: 0x10_ffff })
  .filter((code) => code < 0xd800 || code > 0xdfff)
  .map((code) => String.fromCodePoint(code))

export default fc
