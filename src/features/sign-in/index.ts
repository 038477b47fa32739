export type { People } from './people.ts'
export { linkUrl, storeConsoleAddress } from './printed-link.ts'
export type { ConsoleConfig } from './settings.ts'
export { createLinks, printedLinkMs } from './sign-in-links.ts'
