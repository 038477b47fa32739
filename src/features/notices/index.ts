export { noticesOf } from './notice-pages.ts'
