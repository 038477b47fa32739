export { retryWork } from './retry-work.ts'
