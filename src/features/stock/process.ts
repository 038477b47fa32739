export { createStockLogins } from './stock-logins.ts'
