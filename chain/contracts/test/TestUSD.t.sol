// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Check} from "./support/Check.sol";
import {ContractWallet, RevertingWallet} from "./support/Wallets.sol";
import {TestUSD} from "../src/TestUSD.sol";

contract TestUSDTest is Check {
    uint256 internal constant KEY = 0xABCD;
    uint256 internal constant NOW = 1_800_000_000;

    TestUSD internal usd;
    address internal holder = vm.addr(KEY);
    address internal payee = address(0x9A1);

    function setUp() public {
        vm.warp(NOW);
        usd = new TestUSD(address(this));
        usd.mint(holder, 100e6);
    }

    function digest(bytes32 typehash, uint256 value, uint256 from, uint256 until, bytes32 nonce)
        internal
        view
        returns (bytes32)
    {
        return typed(
            "Test USD",
            block.chainid,
            address(usd),
            keccak256(abi.encode(typehash, holder, payee, value, from, until, nonce))
        );
    }

    function transferSignature(uint256 value, bytes32 nonce) internal view returns (bytes memory) {
        return signed(KEY, digest(usd.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(), value, NOW - 1, NOW + 60, nonce));
    }

    function test_ItIsADollarWithSixDecimals() public view {
        eq(usd.decimals(), 6, "decimals");
        eq(usd.symbol(), "tUSD");
        eq(usd.name(), "Test USD");
        eq(usd.version(), "1");
        (, string memory name, string memory version, uint256 chain, address verifier,,) = usd.eip712Domain();
        eq(name, usd.name());
        eq(version, usd.version());
        eq(chain, block.chainid, "chain");
        eq(verifier, address(usd), "contract");
    }

    function test_TheMinterAloneMints() public {
        vm.prank(holder);
        vm.expectRevert(abi.encodeWithSelector(TestUSD.NotMinter.selector, holder));
        usd.mint(holder, 1);
    }

    function test_AnyoneSendsATransferThatTheHolderSignedAndOnce() public {
        bytes memory signature = transferSignature(30e6, "n");
        vm.expectEmit();
        emit TestUSD.AuthorizationUsed(holder, "n");
        usd.transferWithAuthorization(holder, payee, 30e6, NOW - 1, NOW + 60, "n", signature);
        eq(usd.balanceOf(payee), 30e6, "paid");
        yes(usd.authorizationState(holder, "n"), "used");
        vm.expectRevert(abi.encodeWithSelector(TestUSD.AuthorizationUsedOrCanceled.selector, holder, bytes32("n")));
        usd.transferWithAuthorization(holder, payee, 30e6, NOW - 1, NOW + 60, "n", signature);
    }

    function test_TheSplitFormOfASignatureIsGoodToo() public {
        (uint8 v, bytes32 r, bytes32 s) =
            vm.sign(KEY, digest(usd.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(), 1, NOW - 1, NOW + 60, "n"));
        usd.transferWithAuthorization(holder, payee, 1, NOW - 1, NOW + 60, "n", v, r, s);
        (v, r, s) = vm.sign(KEY, digest(usd.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(), 1, NOW - 1, NOW + 60, "m"));
        vm.expectRevert(abi.encodeWithSelector(TestUSD.NotPayee.selector, address(this)));
        usd.receiveWithAuthorization(holder, payee, 1, NOW - 1, NOW + 60, "m", v, r, s);
        vm.prank(payee);
        usd.receiveWithAuthorization(holder, payee, 1, NOW - 1, NOW + 60, "m", v, r, s);
        eq(usd.balanceOf(payee), 2, "paid");
    }

    function test_OnlyThePayeeReceives() public {
        bytes memory signature =
            signed(KEY, digest(usd.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(), 5, NOW - 1, NOW + 60, "n"));
        vm.expectRevert(abi.encodeWithSelector(TestUSD.NotPayee.selector, address(this)));
        usd.receiveWithAuthorization(holder, payee, 5, NOW - 1, NOW + 60, "n", signature);
        // nor does the signature do for a transfer that anyone may send
        vm.expectRevert(abi.encodeWithSelector(TestUSD.InvalidSignature.selector));
        usd.transferWithAuthorization(holder, payee, 5, NOW - 1, NOW + 60, "n", signature);
        vm.prank(payee);
        usd.receiveWithAuthorization(holder, payee, 5, NOW - 1, NOW + 60, "n", signature);
        eq(usd.balanceOf(payee), 5, "paid");
    }

    function test_AnAuthorizationIsGoodStrictlyBetweenItsTimes() public {
        bytes memory signature = transferSignature(1, "n");
        vm.warp(NOW - 1);
        vm.expectRevert(abi.encodeWithSelector(TestUSD.AuthorizationNotYetValid.selector, NOW - 1));
        usd.transferWithAuthorization(holder, payee, 1, NOW - 1, NOW + 60, "n", signature);
        vm.warp(NOW + 60);
        vm.expectRevert(abi.encodeWithSelector(TestUSD.AuthorizationExpired.selector, NOW + 60));
        usd.transferWithAuthorization(holder, payee, 1, NOW - 1, NOW + 60, "n", signature);
        vm.warp(NOW + 59);
        usd.transferWithAuthorization(holder, payee, 1, NOW - 1, NOW + 60, "n", signature);
    }

    function test_AnAuthorizationCanBeCancelled() public {
        bytes32 structHash = keccak256(abi.encode(usd.CANCEL_AUTHORIZATION_TYPEHASH(), holder, bytes32("n")));
        vm.expectRevert(abi.encodeWithSelector(TestUSD.InvalidSignature.selector));
        usd.cancelAuthorization(holder, "n", "");
        vm.expectEmit();
        emit TestUSD.AuthorizationCanceled(holder, "n");
        usd.cancelAuthorization(holder, "n", signed(KEY, typed("Test USD", block.chainid, address(usd), structHash)));
        bytes memory signature = transferSignature(1, "n");
        vm.expectRevert(abi.encodeWithSelector(TestUSD.AuthorizationUsedOrCanceled.selector, holder, bytes32("n")));
        usd.transferWithAuthorization(holder, payee, 1, NOW - 1, NOW + 60, "n", signature);
    }

    function test_AnAuthorizationIsGoodForOneChainAndOneToken() public {
        bytes memory signature = transferSignature(1, "n");
        TestUSD twin = new TestUSD(address(this));
        vm.expectRevert(abi.encodeWithSelector(TestUSD.InvalidSignature.selector));
        twin.transferWithAuthorization(holder, payee, 1, NOW - 1, NOW + 60, "n", signature);
        vm.chainId(block.chainid + 1);
        vm.expectRevert(abi.encodeWithSelector(TestUSD.InvalidSignature.selector));
        usd.transferWithAuthorization(holder, payee, 1, NOW - 1, NOW + 60, "n", signature);
    }

    function test_AKeyWithForeignCodeStillPaysAndAContractPaysByERC1271() public {
        vm.etch(holder, address(new RevertingWallet()).code);
        usd.transferWithAuthorization(holder, payee, 1, NOW - 1, NOW + 60, "n", transferSignature(1, "n"));
        address key = holder;
        holder = address(new ContractWallet(key));
        usd.mint(holder, 1);
        usd.transferWithAuthorization(holder, payee, 1, NOW - 1, NOW + 60, "n", transferSignature(1, "n"));
        eq(usd.balanceOf(payee), 2, "paid");
    }

    function testFuzz_NoOtherSignatureMovesMoney(uint256 key, uint256 value, bytes32 nonce) public {
        key = within(key, 1, 1e30);
        if (key == KEY) return;
        bytes memory signature =
            signed(key, digest(usd.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(), value, NOW - 1, NOW + 60, nonce));
        vm.expectRevert(abi.encodeWithSelector(TestUSD.InvalidSignature.selector));
        usd.transferWithAuthorization(holder, payee, value, NOW - 1, NOW + 60, nonce, signature);
    }
}
